"""Places on devices where the input of a step waits for it.

The next step's batch, put on the towers' devices while the present step computes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from yt8m import deploy
from yt8m.graph.inputs import RowShare, apart, in_turn, join_batches, reduce_values, split_batch, with_shards
from yt8m.graph.protocols import InputOps, Reduction
from yt8m.lazy import tf


class StagedBatch(NamedTuple):
    """What one step trains on.

    Attributes:
      shares: the towers', in order.
      shards: as in InputOps; None where the inputter does not number its shards.
    """

    shares: list[RowShare]
    shards: tf.Tensor | None


class DeviceBuffer:
    """Room for one list of tensors on a device, from one step to the next.

    Args:
      device: where the tensors lie.
      dtypes: theirs.
      name: of the area; made unique in the graph.
    """

    def __init__(self, device: str, dtypes: Sequence[tf.DType], name: str) -> None:
        self._device, self._dtypes = device, list(dtypes)
        shared_name = tf.get_default_graph().unique_name(name)
        self._room = {"capacity": 1, "memory_limit": 0, "container": "", "shared_name": shared_name}

    def put(self, values: Sequence[tf.Tensor]) -> tf.Operation:
        """Copies `values` here; would wait for ever where the last ones were not taken."""
        with tf.device(self._device):
            return tf.raw_ops.Stage(values=list(values), name="put", **self._room)

    def take(self) -> list[tf.Tensor]:
        """What was put here last; the area is empty then. Waits where nothing was put."""
        with tf.device(self._device):
            return list(tf.raw_ops.Unstage(dtypes=self._dtypes, name="take", **self._room))

    def is_empty(self) -> tf.Tensor:
        """Bool scalar."""
        with tf.device(self._device):
            return tf.equal(tf.raw_ops.StageSize(dtypes=self._dtypes, **self._room), 0)

    def clear(self) -> tf.Operation:
        """Forgets what was put here."""
        with tf.device(self._device):
            return tf.raw_ops.StageClear(dtypes=self._dtypes, **self._room)


class PrefetchBuffers:
    """The areas for one step's input, one on each device; they are full together and empty together.

    Args:
      like: an arrival; all have its types and shapes.
      deployment: the devices.
      mark: an area of one bool on the host, filled last of all: where it is empty, so are all others.
    """

    def __init__(self, like: StagedBatch, deployment: deploy.DeploymentConfig, mark: DeviceBuffer) -> None:
        self._like, self._mark = like, mark
        host = deployment.inputs_device()
        self._places = [
            deployment.clone_device(tower) if _is_for_device(leaf) else host
            for tower, share in enumerate(like.shares)
            for leaf in _leaves(share)
        ]
        self._places += [host for _ in _leaves(like.shards)]
        self._areas = {
            place: DeviceBuffer(place, [leaf.dtype for leaf in self._at(place, like)], "next_step")
            for place in dict.fromkeys(self._places)
        }

    def put(self, arrival: StagedBatch) -> tf.Operation:
        """Puts each part of `arrival` where it is needed."""
        parts = [area.put(self._at(place, arrival)) for place, area in self._areas.items()]
        with tf.control_dependencies(parts):
            return self._mark.put([tf.constant(True)])

    def take(self) -> StagedBatch:
        """What was put last. Whoever asks for a part of it takes all, so that the areas always agree."""
        parts = {place: area.take() for place, area in self._areas.items()}
        with tf.control_dependencies([part[0] for part in (*parts.values(), self._mark.take())]):
            taken = {place: iter(_passed_on(place, part)) for place, part in parts.items()}
        leaves = [next(taken[place]) for place in self._places]
        for leaf, before in zip(leaves, _leaves(self._like), strict=True):
            leaf.set_shape(before.shape)
        return _packed(self._like, leaves)

    def clear(self) -> list[tf.Operation]:
        """Forgets what was put."""
        return [area.clear() for area in (*self._areas.values(), self._mark)]

    def _at(self, place: str, arrival: StagedBatch) -> list[tf.Tensor]:
        return [leaf for leaf, at in zip(_leaves(arrival), self._places, strict=True) if at == place]


def _is_for_device(leaf: tf.Tensor) -> bool:
    """Whether a copy ahead saves anything: features, labels, their weights.

    Strings cannot be on a device, int32 is kept on the host by most kernels of a GPU, and what has but
    one number an example is there at once.
    """
    dtype = leaf.dtype
    is_number = dtype.is_floating or dtype.is_bool or (dtype.is_integer and dtype != tf.int32)
    return is_number and leaf.shape.rank is not None and leaf.shape.rank >= 2


def _passed_on(place: str, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    with tf.device(place):
        return [tf.identity(tensor) for tensor in tensors]


def _leaves(nest: Any) -> list[tf.Tensor]:
    """All tensors in `nest`, those within sparse ones among them."""
    return [leaf for leaf in tf.nest.flatten(nest, expand_composites=True) if leaf is not None]


def _packed(like: Any, leaves: Sequence[tf.Tensor]) -> Any:
    """A nest as `like` of `leaves`, None where that has None."""
    left = iter(leaves)
    whole = [leaf if leaf is None else next(left) for leaf in tf.nest.flatten(like, expand_composites=True)]
    return tf.nest.pack_sequence_as(like, whole, expand_composites=True)


class Staged(NamedTuple):
    """The input of a step that was put in place during the one before.

    Attributes:
      arrival: the towers' shares, and the shards of this very batch.
      ops: the handles; the initializer forgets what was put in place, too.
      put: reads the next batch and puts it in place, once this one is taken; part of each training step.
    """

    arrival: StagedBatch
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
    mark = DeviceBuffer(deployment.inputs_device(), [tf.bool], "next_step_is_there")
    areas: list[PrefetchBuffers] = []

    def fill() -> tf.Operation:
        arrival = cut(in_turn(iterator.get_next, count))
        areas.append(PrefetchBuffers(arrival, deployment, mark))
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


def whole_batch(shares: Sequence[RowShare], split: bool) -> Any:
    """The batch that was cut into `shares`; where each tower dequeued its own, the first."""
    if not split:
        return shares[0].batch
    return tf.nest.map_structure(
        lambda *leaves: None if leaves[0] is None else reduce_values(leaves, shares, Reduction.ROWS),
        *(share.batch for share in shares),
    )


def _cutter(ops: InputOps, towers: int, split: bool) -> Callable[[Sequence[Any]], StagedBatch]:
    """What makes a step's input of the iterator's elements."""

    def cut(elements: Sequence[Any]) -> StagedBatch:
        batches, shards = apart(elements, ops)
        return StagedBatch(split_batch(batches[0], towers) if split else join_batches(batches), shards)

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
