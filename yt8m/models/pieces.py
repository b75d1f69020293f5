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

# A function (net, inputs [n, T, D], mask [n, T]) -> results [n, C]. The result of a row does not depend on other rows.
# All layers are made by the net.
Compute = Callable[[Net, Any, Any], Any]


def by_pieces(compute: Compute, net: Net, inputs: tf.Tensor, mask: tf.Tensor, size: int) -> tf.Tensor:
    """Computes `compute(net, inputs, mask)`, [B, C], for `size` rows at a time.

    Args:
      compute: see `Compute`.
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
            # TensorFlow may call this after the model is built. `context` has the precision and the random keys that
            # applied when it was built, so the activations are computed again in the same way.
            pieces_again = pieces._replace(inputs=inputs)
            of_inputs = context.copy().run(pieces_again.input_gradient, net, values, upstream)
            of_values = context.copy().run(pieces_again.value_gradients, net, values, layers.are_trained, upstream)
            return [of_inputs, *of_values]

        return results, gradient

    return custom_gradient(with_gradient)(inputs, *layers.values)


class _LayersInLoop(Net):
    """Makes layers inside of a loop of TensorFlow. Their variables are made and read outside of the loop."""

    def __init__(self, net: Net, values: Iterator[tf.Tensor] | None = None) -> None:
        super().__init__(net.is_training)
        self._net, self._values_read_before = net, values
        self.values: list[tf.Tensor] = []
        self.are_trained: list[bool] = []

    def variable(
        self, name: str, shape: list[int], initializer: Any, *, l2_penalty: float = 0.0, trainable: bool = True
    ) -> tf.Tensor:
        """The value of the variable: the next one that was read before, or else it is read here; see `Net.variable`."""
        if self._values_read_before is not None:
            return next(self._values_read_before)
        with tf.init_scope():  # so that the variable is made and read outside of the loop
            variable = self._net.variable(name, shape, initializer, l2_penalty=l2_penalty, trainable=trainable)
            self.values.append(tf.identity(variable))
        self.are_trained.append(trainable)
        return self.values[-1]


class _Pieces(NamedTuple):
    """A batch that is computed piece by piece."""

    compute: Compute
    inputs: Any
    mask: Any
    size: int
    random_scopes: random_keys.PieceScopes

    def results(self, layers: Net) -> tf.Tensor:
        """The results of all pieces, [B, C]; `layers` makes the layers."""

        def write(index: tf.Tensor, array: tf.TensorArray) -> tf.TensorArray:
            return array.write(index, self._compute_piece(index, layers, self._rows_of_piece(index, self.inputs)))

        return self._join_pieces(write)

    def input_gradient(self, net: Net, values: tuple[tf.Tensor, ...], upstream: tf.Tensor) -> tf.Tensor:
        """The gradient of the loss with respect to the inputs, [B, T, D].

        It is computed in a loop of its own, so that a step that does not use this gradient skips the loop.

        Args:
          upstream: [B, C], the gradient of the loss with respect to the results.
        """

        def write(index: tf.Tensor, array: tf.TensorArray) -> tf.TensorArray:
            rows = self._rows_of_piece(index, self.inputs)
            result = self._compute_piece(index, _LayersInLoop(net, iter(values)), rows)
            return array.write(index, _gradients(result, [rows], self._rows_of_piece(index, upstream))[0])

        return tf.ensure_shape(self._join_pieces(write), self.inputs.shape)

    def value_gradients(
        self, net: Net, values: tuple[tf.Tensor, ...], are_trained: list[bool], upstream: tf.Tensor
    ) -> list[tf.Tensor | None]:
        """The gradient of the loss with respect to the value of each variable; None for one that is not trained."""

        def add(index: tf.Tensor, sums: tuple[tf.Tensor, ...]) -> tuple[tf.Tensor, ...]:
            reads = [tf.identity(value) for value in values]
            result = self._compute_piece(
                index, _LayersInLoop(net, iter(reads)), self._rows_of_piece(index, self.inputs)
            )
            targets = [value for value, is_trained in zip(reads, are_trained, strict=True) if is_trained]
            gradients = _gradients(result, targets, self._rows_of_piece(index, upstream))
            return tuple(total + gradient for total, gradient in zip(sums, gradients, strict=True))

        zeros = tuple(tf.zeros_like(value) for value, is_trained in zip(values, are_trained, strict=True) if is_trained)
        sums = iter(self._run_loop(add, zeros))
        return [next(sums) if is_trained else None for is_trained in are_trained]

    def _compute_piece(self, index: tf.Tensor, layers: Net, rows: tf.Tensor) -> tf.Tensor:
        """The results of piece `index`, [n, C], whose inputs are `rows`."""
        with self.random_scopes(index):
            return self.compute(layers, rows, self._rows_of_piece(index, self.mask))

    def _rows_of_piece(self, index: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
        """The rows of `values` [B, ...] that belong to piece `index`."""
        return values[index * self.size : (index + 1) * self.size]

    def _count_pieces(self) -> tf.Tensor:
        """The number of pieces; one, without rows, if the batch is empty."""
        return tf.maximum((tf.shape(self.mask)[0] + self.size - 1) // self.size, 1)

    def _join_pieces(self, write: Callable[[tf.Tensor, tf.TensorArray], tf.TensorArray]) -> tf.Tensor:
        """Concatenates the tensors of all pieces; `write(index, array)` writes that of a piece to the array."""
        return self._run_loop(write, tf.TensorArray(tf.float32, self._count_pieces(), infer_shape=False)).concat()

    def _run_loop(self, body: Callable[[tf.Tensor, Any], Any], start: Any) -> Any:
        """Runs `state = body(index, state)` for each piece in order, from the state `start`; returns the last state."""
        count = self._count_pieces()
        _, end = tf.while_loop(
            lambda index, _: index < count,
            lambda index, state: (index + 1, body(index, state)),
            (0, start),
            parallel_iterations=1,
            back_prop=False,
        )
        return end


def _gradients(result: tf.Tensor, targets: list[tf.Tensor], upstream: tf.Tensor) -> list[tf.Tensor]:
    """The gradients of the loss with respect to `targets`; `upstream` is that with respect to `result`."""
    # Addends are added in pairs: the kernel for three or more may add them in another order in another step.
    pairwise = tf.AggregationMethod.EXPERIMENTAL_TREE
    return tf.gradients(result, targets, upstream, aggregation_method=pairwise, unconnected_gradients="zero")
