"""Exchanges values between the towers of a step; synchronised batch norm is built on it.

Towers are built one after another, by one Python call each. When the first tower asks for the values of all towers, the
values of the other towers do not exist yet. So `gathered` returns a `Pack` op that reads the tower's own value N times.
Once all towers are built, `Exchange.connect` sets the inputs of this op to the values of towers 0 to N-1. The result is
an ordinary graph of differentiable ops: a meta-graph can hold it, any device can run it, and the gradient of one
tower's loss flows through the statistics into the other towers. Computing one gradient per tower would be correct, but
each of the N gradients would pass through all towers; `deploy.optimize_clones(jointly=True)` computes one gradient of
the weighted sum.

There are two other ways to exchange values, which have disadvantages:

- Collective ops (`CollectiveReduceV2`) have no gradient, and block forever if two towers share a device or if a fetch
  runs only some of the towers.
- There could be one Python thread for each tower, and the threads would wait for each other at every batch norm. The
  ops of different towers would then be built in a mixed order, and everything that tells towers apart by the order of
  construction (the graph's collections, the stacks of devices and scopes, a modeler's own state) would have to handle
  that.

The disadvantage of the way taken here is that it uses `Operation._update_input`, which is not part of TensorFlow's
public API. TensorFlow's own `while_loop` of version 1 uses it too.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import NamedTuple

from yt8m.lazy import tf
from yt8m.numerics import within


class _Tower(NamedTuple):
    """The tower that is being built."""

    exchange: Exchange
    number: int
    rows: tf.Tensor


_current: ContextVar[_Tower | None] = ContextVar("across_towers", default=None)


class Exchange:
    """The values that the towers of one step exchange."""

    def __init__(self, towers: int) -> None:
        self._graph = tf.get_default_graph()
        # For each tower, for each of its calls of `gathered`: the stacked values and the value of this tower.
        self._calls: list[list[tuple[tf.Tensor, tf.Tensor]]] = [[] for _ in range(towers)]

    def tower(self, index: int, rows: tf.Tensor) -> AbstractContextManager[None]:
        """A context in which `gathered` exchanges values as tower `index`.

        Args:
          index: the index of the tower, from 0.
          rows: int64 scalar, the number of examples of the tower; 0 if it has none and uses a row of another tower.
        """
        return within(_current, _Tower(self, index, rows))

    def gathered(self, index: int, value: tf.Tensor) -> tf.Tensor:
        """[N, ...]: `value` of each of the N towers, for tower `index`; see the function `gathered`."""
        if tf.get_default_graph() is not self._graph:
            raise ValueError(
                "the model gathers the values of all towers (most likely in batch norm) inside of a tf.cond, a "
                "tf.while_loop or a function, where the tensors of other towers cannot be read; call batch norm "
                "outside of it, or train without --sync_batch_norm"
            )
        stack = tf.raw_ops.Pack(values=[value] * len(self._calls), axis=0, name="of_all_towers")
        self._calls[index].append((stack, value))
        return stack

    def connect(self) -> bool:
        """Makes each result of `gathered` hold the values of all towers. Call it after all towers are built."""
        shapes = [[tuple(value.shape) for _, value in values] for values in self._calls]
        if any(other != shapes[0] for other in shapes):
            raise ValueError(
                f"the towers gather values of different shapes: {'; '.join(map(str, shapes))}. "
                "Every tower must be built by the same calls, in the same order."
            )
        for call_of_towers in zip(*self._calls, strict=True):
            for stack, _ in call_of_towers:
                for tower, (_, value) in enumerate(call_of_towers):
                    stack.op._update_input(tower, value)
        return bool(shapes[0])


def is_exchanging() -> bool:
    """Whether the tower that is being built must compute statistics over all towers of the step, not over itself."""
    return _current.get() is not None


def has_examples() -> tf.Tensor:
    """float32 scalar: 1 if the tower that is being built has examples of its own, 0 if its row is another tower's."""
    current = _current.get()
    return tf.ones([]) if current is None else tf.cast(current.rows > 0, tf.float32)


def gathered(value: tf.Tensor) -> tf.Tensor:
    """[N, ...]: `value` of each of the N towers of the step; [1, ...] if towers do not exchange values.

    Every tower must make the same calls in the same order. Gradients flow into all towers.

    Args:
      value: a tensor whose shape is known and the same on all towers.
    """
    current = _current.get()
    if current is None:
        return value[tf.newaxis]
    return current.exchange.gathered(current.number, value)
