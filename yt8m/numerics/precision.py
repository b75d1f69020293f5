"""The precision of matrix products: float32, bfloat16 or float16.

The precision changes only matrix products. Their operands are rounded to 8 significant bits (bfloat16) or 11 (float16),
and their results are cast to float32. The same is done to the products by which gradients are computed. Weights, batch
statistics, losses, optimizer slots and checkpoints stay float32. bfloat16 has the exponents of float32, so nothing
under- or overflows and no loss has to be scaled (Kalamkar et al. 2019).

The largest float16 is 65504 and the smallest is 6e-8, and gradients of a batch's mean may be smaller than that. Usually
the loss is multiplied by a factor that is found by trial, and the steps in which the factor was too large are discarded
(Micikevicius et al. 2018). Here each operand of each product is divided by a power of two of its own, so that its
largest value is about 1. Only values more than 2^24 times smaller than the largest are lost. No step is discarded, and
there is no state to save. In a batch of matrices each matrix has its own power of two, because the gradients of a video
without frames may be a million times those of another.
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
from yt8m.numerics.compiled import custom_gradient, is_on_gpu

_MOST_TERMS = 32768.0  # a sum of so many terms of at most 1 fits float16, which ends at 65504, with room for rounding
# The exponents of the powers of two by which `_scale` divides stay between these, those of normal float32 numbers.
_EXPONENTS = (-126.0, 127.0)


class _Operand(NamedTuple):
    """An operand of a product, scaled so that it fits float16. The operand is values * scale.

    Attributes:
      values: float16 [..., M, N].
      scale: float32 [..., 1, 1] or scalar, a power of two.
    """

    values: tf.Tensor
    scale: tf.Tensor


def float16_matmul(left: tf.Tensor, right: tf.Tensor, *, transpose_a: bool, transpose_b: bool) -> tf.Tensor:
    """The product of two matrices, whose operands are scaled and rounded to float16.

    Args:
      left: float32 or float16 [..., M, K], or [..., K, M] with transpose_a. A float16 operand is not scaled.
      right: float32 or float16 [..., K, N], or [..., N, K] with transpose_b. A float16 operand is not scaled.

    Returns:
      float32 [..., M, N]. Batch dimensions of length 1 are broadcast.
    """

    def product(left: tf.Tensor, right: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], Any]]:
        a, b = _scale(left), _scale(right)

        def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
            c = _scale(upstream)
            grad_a = _multiply(b, c, transpose_b, True) if transpose_a else _multiply(c, b, False, not transpose_b)
            grad_b = _multiply(c, a, True, transpose_a) if transpose_b else _multiply(a, c, not transpose_a, False)
            return [
                tf.cast(_sum_broadcast(left, grad_a), left.dtype),
                tf.cast(_sum_broadcast(right, grad_b), right.dtype),
            ]

        return _multiply(a, b, transpose_a, transpose_b), gradient

    return custom_gradient(product)(tf.convert_to_tensor(left), tf.convert_to_tensor(right))


def _sum_broadcast(operand: tf.Tensor, gradient: tf.Tensor) -> tf.Tensor:
    """The gradient of `operand`: `gradient`, summed over the batch dimensions in which `operand` was broadcast."""
    axes = [axis for axis, size in enumerate(operand.shape[:-2]) if size == 1]
    return tf.reduce_sum(gradient, axes, keepdims=True) if axes else gradient


def _scale(tensor: tf.Tensor) -> _Operand:
    """Divides each matrix in `tensor` [..., M, N] by a power of two, so that its largest value is about 1.

    A float16 tensor is not divided.
    """
    if tensor.dtype == tf.float16:
        return _Operand(tensor, tf.ones([]))
    largest = tf.reduce_max(tf.abs(tensor), axis=[-2, -1], keepdims=True)
    exponent = tf.math.ceil(tf.math.log(largest) / math.log(2.0))
    # A matrix of zeros, and one with infinity or NaN, has no exponent; it is not divided.
    scale = tf.where_v2(tf.math.is_finite(exponent), tf.pow(2.0, tf.clip_by_value(exponent, *_EXPONENTS)), 1.0)
    return _Operand(tf.cast(tensor / scale, tf.float16), scale)


def _multiply(a: _Operand, b: _Operand, transpose_a: bool, transpose_b: bool) -> tf.Tensor:
    """The float32 product of two operands.

    If each sum of the product has more than `_MOST_TERMS` terms, `a` is divided first, so that no sum overflows.
    """
    terms = tf.cast(tf.shape(a.values)[-2 if transpose_a else -1], tf.float32)
    divisor = tf.maximum(terms / _MOST_TERMS, 1.0)
    values = a.values / tf.cast(divisor, tf.float16)
    product = tf.matmul(values, b.values, transpose_a=transpose_a, transpose_b=transpose_b)
    return tf.cast(product, tf.float32) * divisor * a.scale * b.scale


_current: ContextVar[str] = ContextVar("precision", default="float32")


def scope(name: str) -> AbstractContextManager[None]:
    """A context in which the products of this module are computed in one precision.

    Args:
      name: float32, bfloat16 or float16.
    """
    return within(_current, name)


def current() -> str:
    """The name of the precision of the innermost `scope`; float32 outside of any scope.

    The gradient function of `custom_gradient` is called after the scope has closed. If it computes products, it must
    open a scope of the same precision again.
    """
    return _current.get()


def rounded(operand: tf.Tensor) -> tf.Tensor:
    """`operand` cast to the current precision. Call this before a loop that uses the same operand in every step."""
    return operand if current() == "float32" else tf.cast(operand, current())


def matmul(left: tf.Tensor, right: tf.Tensor, *, transpose_a: bool = False, transpose_b: bool = False) -> tf.Tensor:
    """`tf.matmul` in the current precision, with a result of the dtype of `left`.

    Args:
      left: [..., M, K], or [..., K, M] with transpose_a.
      right: [..., K, N], or [..., N, K] with transpose_b; may be a result of `rounded`.
    """
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


def _few_rows_with_own_gradient(inputs: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """`few_rows` in bfloat16 on a CPU, which transposes the inputs before the product for the gradient of the weights.

    That product, x^T g, reads x by columns; it is faster if x is transposed by an op of its own. The graph optimizer
    would fold the transposition into the product, but for `Snapshot`, which copies it.
    """

    def multiply(x: tf.Tensor, weights: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], list[tf.Tensor]]]:
        def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
            of_inputs = tf.transpose(tf.matmul(weights, upstream, transpose_b=True))
            return [of_inputs, tf.matmul(tf.raw_ops.Snapshot(input=tf.transpose(x)), upstream)]

        return few_rows(x, weights), gradient

    return tf.cast(custom_gradient(multiply)(rounded(inputs), rounded(weights)), inputs.dtype)


def few_rows_in_loop(inputs: tf.Tensor, transposed: tf.Tensor) -> tf.Tensor:
    """The product of inputs and weights, like `few_rows`, for a loop that uses the same weights in many steps.

    The caller transposes the weights and rounds them (`rounded`) once before the loop. For the 1,024 x 4,096 weights of
    an LSTM and 32 rows, the CPU kernels take an eighth less time than in `few_rows`, with the same result bit for bit;
    for the weights of a GRU they take the same time.

    Args:
      inputs: [B, F].
      transposed: [U, F], the transposed weights.

    Returns:
      [B, U].
    """
    return tf.cast(tf.transpose(matmul(transposed, inputs, transpose_b=True)), inputs.dtype)


def product(inputs: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """inputs [..., F] times weights [F, U], in the current precision; all dense layers of all models call this."""
    return whole_blocks.cut(wide_product(inputs, weights), int(weights.shape[-1]))


def wide_product(inputs: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    """inputs [..., F] times weights [F, U], like `product`, but with the columns of zeros that `whole_blocks` adds."""
    weights = whole_blocks.extend_columns(weights)
    if inputs.shape.rank == 2:
        has_own_gradient = current() == "bfloat16" and not is_on_gpu(tf.identity(inputs))
        return (_few_rows_with_own_gradient if has_own_gradient else few_rows)(inputs, weights)
    rows = matmul(tf.reshape(inputs, [-1, inputs.shape[-1]]), weights)
    return tf.reshape(rows, tf.concat([tf.shape(inputs)[:-1], [weights.shape[-1]]], 0))


CPUINFO = "/proc/cpuinfo"  # the file in which Linux lists the instruction sets of each processor

# {precision: {name of an instruction set in /proc/cpuinfo: its name for users}}. On a processor that has none of them,
# TensorFlow's kernels convert every operand to float32 and back, or compute number by number.
_INSTRUCTIONS = {
    "bfloat16": {"amx_bf16": "AMX-BF16", "avx512_bf16": "AVX512-BF16"},
    "float16": {"amx_fp16": "AMX-FP16", "avx512_fp16": "AVX512-FP16"},
}


def slowness(precision: str) -> str:
    """A warning for the log that a precision makes training slower on this processor.

    Args:
      precision: float32, bfloat16 or float16.

    Returns:
      The warning; empty if the precision is not slower, or if the processor is unknown (not Linux, or not x86).
    """
    instructions, flags = _INSTRUCTIONS.get(precision, {}), _processor_flags()
    if not instructions or not flags or not flags.isdisjoint(instructions):
        return ""
    return (
        f"--precision={precision} is slower than float32 here: this processor has no instructions for it "
        f"(neither {' nor '.join(instructions.values())})"
    )


def _processor_flags() -> frozenset[str]:
    """The instruction sets of this computer's first processor, as /proc/cpuinfo lists them; empty if unknown."""
    try:
        lines = storage.read_text(CPUINFO).splitlines()
    except RunError:
        return frozenset()
    flag_lists = (line.partition(":")[2] for line in lines if line.partition(":")[0].strip() == "flags")
    return frozenset(next(flag_lists, "").split())
