"""Fast operations: XLA compiles them to one pass over memory, or their gradient has a closed form.

`custom_gradient` does what `tf.custom_gradient` does, except that the memory of graphs can be freed.
`tf.custom_gradient` registers with TensorFlow one more function at each call. TensorFlow keeps it until the process
ends, and the function keeps its graph in memory, so a process that trains a hundred models keeps a hundred graphs. Here
one function is registered once, and each graph has the gradient functions of its own ops as an attribute.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from yt8m.lazy import tf

# With fewer columns, compilation takes more time than the compiled operations save.
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
      *tensors: the arguments of `function`, the first of them [B, C]; an argument may be None. If the first one is a
          result of `add_biases`, the addition is compiled together with `function`.
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
    """Whether compiling operations on `tensor` saves time: on the CPU, with XLA, if the last axis has many values."""
    columns = tensor.shape[-1] if tensor.shape.rank else None
    if columns is None or int(columns) < _LEAST_COLUMNS or not tf.test.is_built_with_xla():
        return False
    return not is_on_gpu(tensor)


# The attribute of a graph from which `_gradient` reads the gradient functions: {name of an op that `custom_gradient`
# made: (number of results, gradient function)}.
_GRADIENTS = "_yt8m_gradients"


def custom_gradient(function: Callable[..., tuple[Any, Callable[..., Any]]]) -> Callable[..., Any]:
    """Gives a function of tensors a gradient of its own.

    Args:
      function: maps tensors to (result, gradient function). The result is a tensor or a tuple of tensors. The gradient
          function maps the gradients with respect to the results to those with respect to the arguments. Other
          tensors that `function` reads get no gradient.

    Returns:
      A function of the same arguments that returns the result; TensorFlow uses the gradient function for it.
    """

    def call(*arguments: tf.Tensor) -> Any:
        inputs = [tf.identity(argument) for argument in arguments]
        result, gradient = function(*inputs)
        outputs = list(result) if isinstance(result, tuple) else [result]
        graph = tf.get_default_graph()
        with graph.gradient_override_map({"IdentityN": _register_gradient()}):
            results = tf.identity_n([*outputs, *inputs])
        if not hasattr(graph, _GRADIENTS):
            setattr(graph, _GRADIENTS, {})
        getattr(graph, _GRADIENTS)[results[0].op.name] = (len(outputs), gradient)
        return tuple(results[: len(outputs)]) if isinstance(result, tuple) else results[0]

    return call


@functools.cache
def _register_gradient() -> str:
    """Registers with TensorFlow the gradient function that all calls of `custom_gradient` share."""
    name = "Yt8mCustomGradient"
    tf.RegisterGradient(name)(_gradient)
    return name


def _gradient(op: tf.Operation, *upstream: tf.Tensor) -> list[tf.Tensor | None]:
    """The gradients with respect to the inputs of an op that `custom_gradient` made.

    Returns:
      None for each result, and for each argument the gradient that the op's own gradient function computes.
    """
    count, gradient = getattr(op.graph, _GRADIENTS)[op.name]
    input_gradients = gradient(*upstream[:count])
    return [None] * count + (list(input_gradients) if isinstance(input_gradients, list | tuple) else [input_gradients])


# The attribute of a graph in which `fused` finds what `add_biases` added: {name of a result of `add_biases`: (bfloat16
# products, biases)}.
_SUMS = "_yt8m_sums"


def add_biases(products: tf.Tensor, biases: tf.Tensor) -> tf.Tensor:
    """The sum of a product and biases, in a form that `fused` can compile together with the next operation.

    If `products` is a matrix that was cast from bfloat16, `fused` casts and adds in its compiled pass, and a training
    step does not compute this sum separately. The gradient is the same bit for bit, but does not read the cast
    products, not even their shape, so they need not be computed for it.

    Args:
      products: float32 [..., U].
      biases: float32 [U].

    Returns:
      float32 [..., U].
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
    """products + biases, in the dtype of the biases."""
    return tf.cast(products, biases.dtype) + biases


# The highest power of s that `softplus` adds up. The next term, 2 s^15 / 15, is 1e-8 at the largest s, which is 1/3.
_LAST_POWER = 13


def softplus(values: tf.Tensor) -> tf.Tensor:
    """max(x, 0) + log(1 + exp(-|x|)) of each value x; the result and its gradient are exact except for the last bits.

    Compiled by XLA, a logarithm of 1 + e takes more time than the rest of a loss. Here e = exp(-|x|) is at most 1, and
    log(1 + e) = 2 (s + s^3/3 + s^5/5 + ...) with s = e / (2 + e) <= 1/3 (Abramowitz & Stegun 4.1.27). So a few terms of
    this series are enough, and they need only products.

    Args:
      values: float32 of any shape.
    """
    return custom_gradient(_softplus)(values)


def _softplus(values: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    """The result of `softplus`, and its gradient function."""
    exponential = tf.exp(-tf.abs(values))
    ratio = exponential / (2.0 + exponential)
    square, series = ratio * ratio, 2.0 / _LAST_POWER
    for power in range(_LAST_POWER - 2, 0, -2):
        series = series * square + 2.0 / power
    return tf.nn.relu(values) + ratio * series, lambda upstream: upstream * tf.sigmoid(values)
