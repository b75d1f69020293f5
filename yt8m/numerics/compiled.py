"""Fast operations: XLA compiles them to one pass over memory, or their gradient has a closed form.

`custom_gradient` does what `tf.custom_gradient` does, except that graphs can be freed. `tf.custom_gradient` registers a
function for each call, for the whole process. That function keeps its graph in memory forever, so that a process that
trains a hundred models keeps a hundred graphs. Here one function is registered once; the gradients are kept by the
graph to which they belong.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from yt8m.lazy import tf

# Below this number of columns compilation takes longer than it saves.
_LEAST_COLUMNS = 512


def fused(function: Callable[..., Any], *tensors: Any) -> Any:
    """`function(*tensors)`, compiled by XLA: intermediate results stay in registers.

    Use this on the CPU for elementwise operations and sums of rows over [B, C] with hundreds of columns: there most of
    the time is spent on memory access. Each shape is compiled once per session, in a tenth of a second, so do not use
    it for shapes that change with every batch. Results may differ in their last bits from those of separate operations.
    Do not use it for a sum over the whole matrix: XLA adds the values one after the other, which in float32 is exact to
    only four digits. For narrow tensors, on GPUs, and if TensorFlow was built without XLA, the operations run
    separately.

    Args:
      function: maps tensors to a tensor or a tuple of tensors; stateless, and without variables.
      *tensors: its arguments, the first of them [B, C]; None is passed on as None. If the first one is a sum of
          `add_biases`, it is computed in the same pass.
    """
    if not is_worth_compiling(tensors[0]):
        return function(*tensors)
    if addends := getattr(tensors[0].graph, _SUMS, {}).get(tensors[0].name):
        return fused(
            lambda products, biases, *others: function(_sum(products, biases), *others), *addends, *tensors[1:]
        )
    present = [tensor for tensor in tensors if tensor is not None]

    def compiled(*arguments: tf.Tensor) -> Any:
        remaining = iter(arguments)
        return function(*(None if tensor is None else next(remaining) for tensor in tensors))

    return tf.function(compiled, jit_compile=True, autograph=False)(*present)


def is_on_gpu(tensor: tf.Tensor) -> bool:
    """Whether the graph places `tensor` on a GPU. Pass a new `tf.identity` to ask about the current device."""
    return bool(tf.DeviceSpec.from_string(tensor.device).device_type == "GPU")


def is_worth_compiling(tensor: tf.Tensor) -> bool:
    """Whether compiling operations on `tensor` saves time."""
    columns = tensor.shape[-1] if tensor.shape.rank else None
    if columns is None or int(columns) < _LEAST_COLUMNS or not tf.test.is_built_with_xla():
        return False
    return not is_on_gpu(tensor)


_KEPT = "_yt8m_gradients"  # attribute of a graph: {name of the op: (number of outputs, gradient)}


def custom_gradient(function: Callable[..., tuple[Any, Callable[..., Any]]]) -> Callable[..., Any]:
    """Returns a function of tensors with the results of `function` and the gradient that `function` returns.

    Args:
      function: maps tensors to (result, gradient function). The result is a tensor or a tuple of tensors. The gradient
          function maps the gradients with respect to the results to those with respect to the arguments. `function`
          reads no tensors but its arguments.
    """

    def call(*arguments: tf.Tensor) -> Any:
        inputs = [tf.identity(argument) for argument in arguments]
        result, gradient = function(*inputs)
        outputs = list(result) if isinstance(result, tuple) else [result]
        graph = tf.get_default_graph()
        with graph.gradient_override_map({"IdentityN": _registered()}):
            results = tf.identity_n([*outputs, *inputs])
        if not hasattr(graph, _KEPT):
            setattr(graph, _KEPT, {})
        getattr(graph, _KEPT)[results[0].op.name] = (len(outputs), gradient)
        return tuple(results[: len(outputs)]) if isinstance(result, tuple) else results[0]

    return call


@functools.cache
def _registered() -> str:
    """Registers with TensorFlow the gradient function that all calls of `custom_gradient` share; returns its name."""
    name = "Yt8mCustomGradient"
    tf.RegisterGradient(name)(_gradient)
    return name


def _gradient(op: tf.Operation, *upstream: tf.Tensor) -> list[tf.Tensor | None]:
    count, gradient = getattr(op.graph, _KEPT)[op.name]
    input_gradients = gradient(*upstream[:count])
    return [None] * count + (list(input_gradients) if isinstance(input_gradients, list | tuple) else [input_gradients])


_SUMS = "_yt8m_sums"  # attribute of a graph: {name of a result of `add_biases`: (bfloat16 products, biases)}


def add_biases(products: tf.Tensor, biases: tf.Tensor) -> tf.Tensor:
    """products [..., U] + biases [U], both float32.

    If `products` are a matrix that was cast from bfloat16, a training step need not compute this sum as an operation of
    its own: `fused` casts and adds in its compiled pass. The gradient is the same bit for bit, but does not read the
    cast products, not even their shape.
    """
    rounded = products.op.inputs[0] if products.op.type == "Cast" else products
    if rounded.dtype != tf.bfloat16 or rounded.shape.rank != 2:
        return products + biases

    def add(products: tf.Tensor, biases: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], list[tf.Tensor]]]:
        return _sum(products, biases), lambda upstream: [tf.cast(upstream, products.dtype), tf.reduce_sum(upstream, 0)]

    result: tf.Tensor = custom_gradient(add)(rounded, biases)
    if not hasattr(result.graph, _SUMS):
        setattr(result.graph, _SUMS, {})
    getattr(result.graph, _SUMS)[result.name] = (rounded, biases)
    return result


def _sum(products: tf.Tensor, biases: tf.Tensor) -> tf.Tensor:
    return tf.cast(products, biases.dtype) + biases


# The last power of s in the series of `softplus`. The first omitted term, 2 s^15 / 15, is 1e-8 at the largest s, 1/3.
_LAST_POWER = 13


def softplus(values: tf.Tensor) -> tf.Tensor:
    """float32 of the shape of `values`: max(x, 0) + log(1 + exp(-|x|)), exact to the last bits, as is its gradient.

    In XLA, a logarithm of 1 + e costs more than the rest of a loss. Here e is at most 1, so that the series
    log(1 + e) = 2 (s + s^3/3 + s^5/5 + ...) with s = e / (2 + e) <= 1/3 (Abramowitz & Stegun 4.1.27) is
    short and needs only products.
    """
    return custom_gradient(_softplus)(values)


def _softplus(values: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    small = tf.exp(-tf.abs(values))
    ratio = small / (2.0 + small)
    square, series = ratio * ratio, 2.0 / _LAST_POWER
    for power in range(_LAST_POWER - 2, 0, -2):
        series = series * square + 2.0 / power
    return tf.nn.relu(values) + ratio * series, lambda upstream: upstream * tf.sigmoid(values)
