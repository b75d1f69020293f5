"""The next step's batch, put on the towers' devices while the present step computes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from yt8m import deploy
from yt8m.graph.areas import Area, Areas, Arrival
from yt8m.graph.inputs import apart, in_turn, with_shards
from yt8m.graph.ops import InputOps, Reduction
from yt8m.graph.towers import Share, join_batches, reduce_values, split_batch
from yt8m.lazy import tf


class Staged(NamedTuple):
    """The input of a step that was put in place during the one before.

    Attributes:
      arrival: the towers' shares, and the shards of this very batch.
      ops: the handles; the initializer forgets what was put in place, too.
      put: reads the next batch and puts it in place, once this one is taken; part of each training step.
    """

    arrival: Arrival
    ops: InputOps
    put: tf.Operation


def stage(iterator: Any, ops: InputOps, deployment: deploy.DeploymentConfig, split: bool) -> Staged:
    """The input of a step, taken from areas that each step fills for the next.

    A step that finds them empty, such as the first, fills them itself. So no batch is lost or comes twice,
    their order is that of the iterator, and at the end of the data it is the iterator that says so, in the
    step that has no batch: reading ahead only finds nothing there. A damaged record is found one
    step earlier than without, since the step before reads it.

    Args:
      iterator, ops: from `create_input`.
      deployment: towers and devices.
      split: one batch a step, cut over the towers; False: one batch for each tower.
    """
    count = 1 if split else deployment.num_clones
    cut = _cutter(ops, deployment.num_clones, split)
    mark = Area(deployment.inputs_device(), [tf.bool], "next_step_is_there")
    areas: list[Areas] = []

    def fill() -> tf.Operation:
        arrival = cut(in_turn(iterator.get_next, count))
        areas.append(Areas(arrival, deployment, mark))
        return areas[0].put(arrival)

    with tf.name_scope("first"):
        filled = _where(mark.is_empty(), fill)
    with tf.name_scope("taken"), tf.control_dependencies([filled]):
        arrival = areas[0].take()
    with tf.name_scope("next"), tf.control_dependencies([arrival.shares[0].rows]):
        found = in_turn(iterator.get_next_as_optional, count)
        is_there = tf.reduce_all([one.has_value() for one in found])
        put = _where(is_there, lambda: areas[0].put(cut([one.get_value() for one in found])))
    start = tf.group(ops.initializer, *areas[0].clear(), name="start_anew")
    return Staged(arrival, dataclasses.replace(with_shards(ops, arrival.shards), initializer=start), put)


def whole_batch(shares: Sequence[Share], split: bool) -> Any:
    """The batch that was cut into `shares`; where each tower dequeued its own, the first."""
    if not split:
        return shares[0].batch
    return tf.nest.map_structure(
        lambda *leaves: None if leaves[0] is None else reduce_values(leaves, shares, Reduction.ROWS),
        *(share.batch for share in shares),
    )


def _cutter(ops: InputOps, towers: int, split: bool) -> Callable[[Sequence[Any]], Arrival]:
    """What makes a step's input of the iterator's elements."""

    def cut(elements: Sequence[Any]) -> Arrival:
        batches, shards = apart(elements, ops)
        return Arrival(split_batch(batches[0], towers) if split else join_batches(batches), shards)

    return cut


def _where(condition: tf.Tensor, then: Callable[[], tf.Operation]) -> tf.Operation:
    """Runs what `then` builds where `condition` holds; the op that is done behind it, or without it.

    tf.cond would put it into a function, whose ops nobody can tell an error by: the end of the data
    is known by the op that meets it.
    """
    no, yes = tf.raw_ops.Switch(data=condition, pred=condition)
    # The branch hangs on these: Switch itself runs in either case.
    left_out, begun = tf.identity(no), tf.identity(yes)
    with tf.control_dependencies([begun]):
        done = then()
    with tf.control_dependencies([done]):
        ended = tf.identity(begun)
    return tf.raw_ops.Merge(inputs=[left_out, ended]).output.op
