"""The precision of matrix products: float32, bfloat16 or float16.

Only products change. Their operands are rounded to 8 or 11 significant bits, their results come back as
float32, and so do the gradients, whose products are rounded in the same way. Weights, batch statistics, losses,
optimizer slots and checkpoints stay float32. bfloat16 has the exponents of float32, so nothing under- or
overflows and no loss has to be scaled (Kalamkar et al. 2019).

float16 ends at 65504 and has nothing below 6e-8, where gradients of a batch's mean lie. Usually the loss is multiplied
by a factor that is found by trial, and the steps in which it was too large are discarded (Micikevicius et al. 2018).
Here each operand of each product is divided by a power of two of its own, so that its largest value is about 1. Only
values more than 2^24 times smaller than the largest are lost. No step is discarded, and there is no state to save. In a
batch of matrices each matrix has its own power of two, because the gradients of a video without frames may be a million
times those of another.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import Any, NamedTuple

from yt8m import storage
from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.numerics import whole_blocks, within
from yt8m.numerics.compiled import custom_gradient

_MANY = 32768.0  # number of terms of at most 1 whose sum fits float16, with room for rounding
_EXPONENTS = (-126.0, 127.0)  # range of the exponent of a unit: the normal float32 numbers


class _Operand(NamedTuple):
    """`values`, float16 [..., M, N], times `unit`, float32 [..., 1, 1]."""

    values: tf.Tensor
    unit: tf.Tensor


def float16_matmul(left: tf.Tensor, right: tf.Tensor, *, transpose_a: bool, transpose_b: bool) -> tf.Tensor:
    """The float32 result of a `tf.matmul` of operands that are scaled and rounded to float16.

    Batch dimensions of length 1 are broadcast. An operand that is float16 already is not scaled.
    """

    def product(left: tf.Tensor, right: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], Any]]:
        a, b = _operand(left), _operand(right)

        def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
            c = _operand(upstream)
            of_a = _times(b, c, transpose_b, True) if transpose_a else _times(c, b, False, not transpose_b)
            of_b = _times(c, a, True, transpose_a) if transpose_b else _times(a, c, not transpose_a, False)
            return [tf.cast(_summed_as(left, of_a), left.dtype), tf.cast(_summed_as(right, of_b), right.dtype)]

        return _times(a, b, transpose_a, transpose_b), gradient

    return custom_gradient(product)(tf.convert_to_tensor(left), tf.convert_to_tensor(right))


def _summed_as(operand: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
    """The gradient of `operand`, summed over the batch dimensions in which `operand` was broadcast."""
    axes = [axis for axis, size in enumerate(operand.shape[:-2]) if size == 1]
    return tf.reduce_sum(gradient, axes, keepdims=True) if axes else gradient


def _operand(tensor: tf.Tensor) -> _Operand:
    if tensor.dtype == tf.float16:
        return _Operand(tensor, tf.ones([]))
    largest = tf.reduce_max(tf.abs(tensor), axis=[-2, -1], keepdims=True)
    exponent = tf.math.ceil(tf.math.log(largest) / math.log(2.0))
    # Zeros, infinity and NaN have no exponent; they are passed on unchanged.
    unit = tf.where_v2(tf.math.is_finite(exponent), tf.pow(2.0, tf.clip_by_value(exponent, *_EXPONENTS)), 1.0)
    return _Operand(tf.cast(tensor / unit, tf.float16), unit)


def _times(a: _Operand, b: _Operand, transpose_a: bool, transpose_b: bool) -> tf.Tensor:
    """The float32 product. If a sum has more than `_MANY` terms, `a` is scaled down so that the sum cannot overflow."""
    terms = tf.cast(tf.shape(a.values)[-2 if transpose_a else -1], tf.float32)
    room = tf.maximum(terms / _MANY, 1.0)
    values = a.values / tf.cast(room, tf.float16)
    product = tf.matmul(values, b.values, transpose_a=transpose_a, transpose_b=transpose_b)
    return tf.cast(product, tf.float32) * room * a.unit * b.unit


_current: ContextVar[str] = ContextVar("precision", default="float32")


def scope(name: str) -> AbstractContextManager[None]:
    """A context in which products are computed in `name`: float32, bfloat16 or float16."""
    return within(_current, name)


def current() -> str:
    """The precision of the innermost `scope`; float32 outside of any scope.

    A custom gradient is built after the scope has closed, so it must open a scope of that precision again.
    """
    return _current.get()


def rounded(operand: tf.Tensor) -> tf.Tensor:
    """`operand` cast to the current precision; call it once before a loop that uses the operand in many steps."""
    return operand if current() == "float32" else tf.cast(operand, current())


def matmul(left: tf.Tensor, right: tf.Tensor, *, transpose_a: bool = False, transpose_b: bool = False) -> tf.Tensor:
    """`tf.matmul` with a result of the type of `left`; `right` may be `rounded` already."""
    if current() == "float16":
        return float16_matmul(left, right, transpose_a=transpose_a, transpose_b=transpose_b)
    result = tf.matmul(rounded(left), rounded(right), transpose_a=transpose_a, transpose_b=transpose_b)
    return tf.cast(result, left.dtype)


def few_rows(inputs: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """inputs [B, F] times weights [F, U], faster than `matmul` if B is small, such as one row per video of a batch.

    Let W be the weights and g the gradient of the result. In a plain product the gradient of `inputs` is g W^T, for
    which the CPU kernels copy all of W into another layout. In the form used here it is (W g^T)^T, which is up to four
    times as fast. The transposition of `inputs` costs nothing, since the graph optimizer folds it into the product.
    """
    return matmul(tf.transpose(inputs), weights, transpose_a=True)


def few_rows_in_loop(inputs: tf.Tensor, transposed: tf.Tensor) -> tf.Tensor:
    """`few_rows` for a loop: inputs [B, F] times weights [F, U], given as their transpose [U, F].

    The caller transposes the weights and rounds them (`rounded`) once before the loop. For the 1,024 x 4,096 weights of
    an LSTM and 32 rows, the CPU kernels take an eighth less time than in `few_rows`, with the same result bit for bit;
    for the weights of a GRU they take as long.
    """
    return tf.cast(tf.transpose(matmul(transposed, inputs, transpose_b=True)), inputs.dtype)


def product(inputs: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """[..., F] times [F, U]; every dense layer of every model goes through here."""
    return whole_blocks.cut(wide_product(inputs, weights), int(weights.shape[-1]))


def wide_product(inputs: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """`product`, with the columns that `whole_blocks` adds."""
    weights = whole_blocks.extend_columns(weights)
    if inputs.shape.rank == 2:
        return few_rows(inputs, weights)
    rows = matmul(tf.reshape(inputs, [-1, inputs.shape[-1]]), weights)
    return tf.reshape(rows, tf.concat([tf.shape(inputs)[:-1], [weights.shape[-1]]], 0))


CPUINFO = "/proc/cpuinfo"

# {precision: (instructions as Linux names them, as the vendors name them)}. Without one of them TensorFlow's
# kernels convert every operand to float32 and back, or compute number by number.
_INSTRUCTIONS = {
    "bfloat16": {"amx_bf16": "AMX-BF16", "avx512_bf16": "AVX512-BF16"},
    "float16": {"amx_fp16": "AMX-FP16", "avx512_fp16": "AVX512-FP16"},
}


def slowness(precision: str) -> str:
    """The line to log if `precision` makes training slower on this processor; empty otherwise.

    It is also empty if the processor is unknown (not Linux, or not x86).
    """
    wanted, flags = _INSTRUCTIONS.get(precision, {}), _processor_flags()
    if not wanted or not flags or not flags.isdisjoint(wanted):
        return ""
    return (
        f"--precision={precision} is slower than float32 here: this processor has no instructions for it "
        f"(neither {' nor '.join(wanted.values())})"
    )


def _processor_flags() -> frozenset[str]:
    """The feature flags of the first processor; empty if they are unknown."""
    try:
        lines = storage.read_text(CPUINFO).splitlines()
    except RunError:
        return frozenset()
    flag_lists = (line.partition(":")[2] for line in lines if line.partition(":")[0].strip() == "flags")
    return frozenset(next(flag_lists, "").split())
