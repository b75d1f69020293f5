"""A function of the rows of a batch, computed for a few rows at a time, so that training needs less memory.

The activations of a piece of the batch are discarded after the forward pass, and computed again for the gradient (T.
Chen, B. Xu, C. Zhang and C. Guestrin, Training Deep Nets with Sublinear Memory Cost, 2016, arXiv 1604.06174). So a step
needs the memory of one piece, and takes the time of one more forward pass.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from yt8m.lazy import tf
from yt8m.models.layers import Net
from yt8m.numerics import random_keys
from yt8m.numerics.compiled import custom_gradient

# (net, inputs [n, T, D], mask [n, T]) -> results [n, C]. Rows are independent of each other. The net makes all layers.
Compute = Callable[[Net, Any, Any], Any]


def by_pieces(compute: Compute, net: Net, inputs: tf.Tensor, mask: tf.Tensor, size: int) -> tf.Tensor:
    """`compute(net, inputs, mask)`, [B, C], computed for `size` rows at a time.

    Args:
      compute: the function.
      net: the net of the model, which gets the variables and their penalties.
      inputs: float32 [B, T, D].
      mask: float32 [B, T]; it gets no gradient.
      size: number of rows of a piece; the last one may have fewer.
    """
    layers = _LayersInLoop(net)
    pieces = _Pieces(compute, inputs, mask, size, random_keys.piece_scopes())
    results, context = pieces.results(layers), contextvars.copy_context()

    def with_gradient(inputs: tf.Tensor, *values: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], Any]]:
        def gradient(upstream: tf.Tensor) -> list[tf.Tensor | None]:
            # In the context of the model: precision and random keys.
            same = pieces._replace(inputs=inputs)
            of_inputs = context.copy().run(same.input_gradient, net, values, upstream)
            return [of_inputs, *context.copy().run(same.value_gradients, net, values, layers.are_trained, upstream)]

        return results, gradient

    return custom_gradient(with_gradient)(inputs, *layers.values)


class _LayersInLoop(Net):
    """Layers that are built inside of a loop. Their variables are made and read outside of it.

    Args:
      net: makes the variables.
      values: the values of the variables, if they were read already.

    Attributes:
      values: the values of the variables that were read here, in the order in which the layers were built.
      are_trained: for each of these variables, whether it is trained.
    """

    def __init__(self, net: Net, values: Iterator[tf.Tensor] | None = None) -> None:
        super().__init__(net.is_training)
        self._net, self._known = net, values
        self.values: list[tf.Tensor] = []
        self.are_trained: list[bool] = []

    def variable(
        self, name: str, shape: list[int], initializer: Any, *, l2_penalty: float = 0.0, trainable: bool = True
    ) -> tf.Tensor:
        """The value of the variable: the next of the `values` that were given, or else one that is read here."""
        if self._known is not None:
            return next(self._known)
        with tf.init_scope():  # leaves the loop
            made = self._net.variable(name, shape, initializer, l2_penalty=l2_penalty, trainable=trainable)
            self.values.append(tf.identity(made))
        self.are_trained.append(trainable)
        return self.values[-1]


class _Pieces(NamedTuple):
    """The arguments of `by_pieces`; `seeds(index)` is the context with the random keys of piece `index`."""

    compute: Compute
    inputs: Any
    mask: Any
    size: int
    seeds: random_keys.PieceScopes

    def results(self, layers: Net) -> tf.Tensor:
        """The results of all pieces, [B, C]."""

        def write(index: tf.Tensor, array: tf.TensorArray) -> tf.TensorArray:
            return array.write(index, self._computed(index, layers, self._rows(index, self.inputs)))

        return self._joined(write)

    def input_gradient(self, net: Net, values: tuple[tf.Tensor, ...], upstream: tf.Tensor) -> tf.Tensor:
        """The gradient [B, T, D] of the inputs, given the gradient `upstream` [B, C] of the results.

        Its loop is separate from that of `value_gradients`, so a step that does not use this gradient skips it.
        """

        def write(index: tf.Tensor, array: tf.TensorArray) -> tf.TensorArray:
            rows = self._rows(index, self.inputs)
            result = self._computed(index, _LayersInLoop(net, iter(values)), rows)
            return array.write(index, _gradients(result, [rows], self._rows(index, upstream))[0])

        return tf.ensure_shape(self._joined(write), self.inputs.shape)

    def value_gradients(
        self, net: Net, values: tuple[tf.Tensor, ...], are_trained: list[bool], upstream: tf.Tensor
    ) -> list[tf.Tensor | None]:
        """The gradient of each value, given the gradient `upstream` [B, C] of the results; None if untrained."""

        def add(index: tf.Tensor, sums: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
            reads = [tf.identity(value) for value in values]
            result = self._computed(index, _LayersInLoop(net, iter(reads)), self._rows(index, self.inputs))
            targets = [value for value, is_trained in zip(reads, are_trained, strict=True) if is_trained]
            gradients = _gradients(result, targets, self._rows(index, upstream))
            return tuple(total + gradient for total, gradient in zip(sums, gradients, strict=True))

        zeros = tuple(tf.zeros_like(value) for value, is_trained in zip(values, are_trained, strict=True) if is_trained)
        sums = iter(self._loop(add, zeros))
        return [next(sums) if is_trained else None for is_trained in are_trained]

    def _computed(self, index: tf.Tensor, layers: Net, rows: tf.Tensor) -> tf.Tensor:
        with self.seeds(index):
            return self.compute(layers, rows, self._rows(index, self.mask))

    def _rows(self, index: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        return values[index * self.size : (index + 1) * self.size]

    def _count(self) -> tf.Tensor:
        return tf.maximum((tf.shape(self.mask)[0] + self.size - 1) // self.size, 1)

    def _joined(self, write: Callable[[tf.Tensor, tf.TensorArray], tf.TensorArray]) -> tf.Tensor:
        return self._loop(write, tf.TensorArray(tf.float32, self._count(), infer_shape=False)).concat()

    def _loop(self, body: Callable[[tf.Tensor, Any], Any], start: Any) -> Any:
        """The state after `state = body(index, state)` for each piece in order."""
        count = self._count()
        _, end = tf.while_loop(
            lambda index, _: index < count,
            lambda index, state: (index + 1, body(index, state)),
            (0, start),
            parallel_iterations=1,
            back_prop=False,
        )
        return end


def _gradients(result: tf.Tensor, targets: list[tf.Tensor], upstream: tf.Tensor) -> list[tf.Tensor]:
    # Gradients are added in pairs, since the kernel for three or more addends may change their order between steps.
    pairwise = tf.AggregationMethod.EXPERIMENTAL_TREE
    return tf.gradients(result, targets, upstream, aggregation_method=pairwise, unconnected_gradients="zero")
