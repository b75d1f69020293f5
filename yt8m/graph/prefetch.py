"""The input of one step: read when the step runs, or put on the towers' devices during the step before.

The second way (prefetch_to_device) copies the next batch while the present step computes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from yt8m import deploy
from yt8m.graph.inputs import (
    RowShare,
    create_input,
    join_batches,
    next_batches,
    read_in_turn,
    reduce_values,
    separate_shards,
    split_batch,
    with_shards,
)
from yt8m.graph.protocols import InputOps, Inputter, Reduction
from yt8m.lazy import tf


@dataclasses.dataclass(frozen=True)
class StepInput:
    """The input of one step.

    Attributes:
      batch: a whole batch, for the predict path.
      shares: the towers'.
      ops: the handles. With prefetch, the initializer also discards the staged batch.
      put_next: with prefetch, stages the next step's shares; part of each training step.
    """

    batch: Any
    shares: Sequence[RowShare]
    ops: InputOps
    put_next: tf.Operation | None = None


def read_shares(inputter: Inputter, deployment: deploy.DeploymentConfig, split: bool, ahead: bool = False) -> StepInput:
    """The input of one step.

    Args:
      inputter: batches.
      deployment: towers and devices.
      split: one batch a step, split over the towers; False: one batch for each tower.
      ahead: copy the shares to the towers' devices during the previous step.
    """
    towers = deployment.num_clones
    with tf.device(deployment.inputs_device()):
        iterator, ops = create_input(inputter, inputter.batch_size * (towers if split else 1))
        if ahead:
            with tf.name_scope("staged"):
                return _stage(iterator, ops, deployment, split)
        batches, ops = next_batches(iterator, 1 if split else towers, ops)
        shares = split_batch(batches[0], towers) if split else join_batches(batches)
        return StepInput(batches[0], shares, ops)


def _stage(iterator: Any, ops: InputOps, deployment: deploy.DeploymentConfig, split: bool) -> StepInput:
    """The input of a step, taken from buffers that each step fills for the next.

    A step that finds the buffers empty, such as the first, fills them itself. So no batch is lost or repeated, and
    the order is that of the iterator. If reading ahead meets the end of the data, it stages nothing, and the next
    step reports the end. A damaged record fails one step earlier than without prefetch, since the previous step
    reads it.
    """
    count = 1 if split else deployment.num_clones
    is_full = DeviceBuffer(deployment.inputs_device(), [tf.bool], "next_step_is_there")
    buffers: list[PrefetchBuffers] = []

    def staged(elements: Sequence[Any]) -> StagedBatch:
        batches, shards = separate_shards(elements, ops)
        shares = split_batch(batches[0], deployment.num_clones) if split else join_batches(batches)
        return StagedBatch(shares, shards)

    def fill() -> tf.Operation:
        first = staged(read_in_turn(iterator.get_next, count))
        buffers.append(PrefetchBuffers(first, deployment, is_full))
        return buffers[0].put(first)

    with tf.name_scope("first"):
        filled = _if(is_full.is_empty(), fill)
    with tf.name_scope("taken"), tf.control_dependencies([filled]):
        taken = buffers[0].take()
    with tf.name_scope("next"), tf.control_dependencies([taken.shares[0].rows]):
        found = read_in_turn(iterator.get_next_as_optional, count)
        has_next = tf.reduce_all([one.has_value() for one in found])
        put = _if(has_next, lambda: buffers[0].put(staged([one.get_value() for one in found])))
    start = tf.group(ops.initializer, *buffers[0].clear(), name="start_anew")
    ops = dataclasses.replace(with_shards(ops, taken.shards), initializer=start)
    return StepInput(_whole_batch(taken.shares, split), taken.shares, ops, put)


def _whole_batch(shares: Sequence[RowShare], split: bool) -> Any:
    """The batch that was split into `shares`; if each tower has its own batch, that of the first tower."""
    if not split:
        return shares[0].batch
    return tf.nest.map_structure(
        lambda *leaves: None if leaves[0] is None else reduce_values(leaves, shares, Reduction.ROWS),
        *(share.batch for share in shares),
    )


def _if(condition: tf.Tensor, build: Callable[[], tf.Operation]) -> tf.Operation:
    """Runs the ops that `build` makes if `condition` holds; returns an op that completes in either case.

    tf.cond would put them into a function, and an error inside a function does not name the failing op. The end of
    the data is recognised by the op that reports it.
    """
    no, yes = tf.raw_ops.Switch(data=condition, pred=condition)
    # The branch depends on these identities, since Switch itself runs in either case.
    skipped, begun = tf.identity(no), tf.identity(yes)
    with tf.control_dependencies([begun]):
        done = build()
    with tf.control_dependencies([done]):
        ended = tf.identity(begun)
    return tf.raw_ops.Merge(inputs=[skipped, ended]).output.op


class StagedBatch(NamedTuple):
    """The data of one training step.

    Attributes:
      shares: the towers', in order.
      shards: as in InputOps; None if the inputter does not number its shards.
    """

    shares: list[RowShare]
    shards: tf.Tensor | None


class DeviceBuffer:
    """Holds one list of tensors on a device, from one step to the next.

    Args:
      device: where the tensors are.
      dtypes: their types.
      name: of the buffer; made unique in the graph.
    """

    def __init__(self, device: str, dtypes: Sequence[tf.DType], name: str) -> None:
        self._device, self._dtypes = device, list(dtypes)
        shared_name = tf.get_default_graph().unique_name(name)
        self._room = {"capacity": 1, "memory_limit": 0, "container": "", "shared_name": shared_name}

    def put(self, values: Sequence[tf.Tensor]) -> tf.Operation:
        """Copies `values` into the buffer; blocks until the previous values have been taken."""
        with tf.device(self._device):
            return tf.raw_ops.Stage(values=list(values), name="put", **self._room)

    def take(self) -> list[tf.Tensor]:
        """Removes and returns the values in the buffer; blocks while it is empty."""
        with tf.device(self._device):
            return list(tf.raw_ops.Unstage(dtypes=self._dtypes, name="take", **self._room))

    def is_empty(self) -> tf.Tensor:
        """Bool scalar: whether the buffer holds values."""
        with tf.device(self._device):
            return tf.equal(tf.raw_ops.StageSize(dtypes=self._dtypes, **self._room), 0)

    def clear(self) -> tf.Operation:
        """Empties the buffer."""
        with tf.device(self._device):
            return tf.raw_ops.StageClear(dtypes=self._dtypes, **self._room)


class PrefetchBuffers:
    """The buffers for one step's input, one on each device; all are full or all are empty.

    Args:
      like: a batch; all have its types and shapes.
      deployment: the devices.
      is_full: a buffer of one bool on the host, filled after all others: if it is empty, so are they.
    """

    def __init__(self, like: StagedBatch, deployment: deploy.DeploymentConfig, is_full: DeviceBuffer) -> None:
        self._like, self._is_full = like, is_full
        host = deployment.inputs_device()
        self._places = [
            deployment.clone_device(tower) if _is_for_device(leaf) else host
            for tower, share in enumerate(like.shares)
            for leaf in _leaves(share)
        ]
        self._places += [host for _ in _leaves(like.shards)]
        self._buffers = {
            place: DeviceBuffer(place, [leaf.dtype for leaf in self._at(place, like)], "next_step")
            for place in dict.fromkeys(self._places)
        }

    def put(self, batch: StagedBatch) -> tf.Operation:
        """Puts each part of `batch` on the device that needs it."""
        parts = [buffer.put(self._at(place, batch)) for place, buffer in self._buffers.items()]
        with tf.control_dependencies(parts):
            return self._is_full.put([tf.constant(True)])

    def take(self) -> StagedBatch:
        """Removes and returns the staged batch. Fetching a part of it empties all buffers, so that they agree."""
        parts = {place: buffer.take() for place, buffer in self._buffers.items()}
        with tf.control_dependencies([part[0] for part in (*parts.values(), self._is_full.take())]):
            taken = {place: iter(_passed_on(place, part)) for place, part in parts.items()}
        leaves = [next(taken[place]) for place in self._places]
        for leaf, before in zip(leaves, _leaves(self._like), strict=True):
            leaf.set_shape(before.shape)
        return _packed(self._like, leaves)

    def clear(self) -> list[tf.Operation]:
        """Empties all buffers."""
        return [buffer.clear() for buffer in (*self._buffers.values(), self._is_full)]

    def _at(self, place: str, batch: StagedBatch) -> list[tf.Tensor]:
        return [leaf for leaf, at in zip(_leaves(batch), self._places, strict=True) if at == place]


def _is_for_device(leaf: tf.Tensor) -> bool:
    """Whether an early copy saves time: it does for features, labels and their weights.

    Strings cannot be on a GPU, most GPU kernels keep int32 on the host, and copying one number per example costs
    next to nothing.
    """
    dtype = leaf.dtype
    is_number = dtype.is_floating or dtype.is_bool or (dtype.is_integer and dtype != tf.int32)
    return is_number and leaf.shape.rank is not None and leaf.shape.rank >= 2


def _passed_on(place: str, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    with tf.device(place):
        return [tf.identity(tensor) for tensor in tensors]


def _leaves(nest: Any) -> list[tf.Tensor]:
    """All tensors in `nest`, including the components of sparse tensors."""
    return [leaf for leaf in tf.nest.flatten(nest, expand_composites=True) if leaf is not None]


def _packed(like: Any, leaves: Sequence[tf.Tensor]) -> Any:
    """Packs `leaves` into the structure of `like`; None in `like` stays None."""
    left = iter(leaves)
    whole = [leaf if leaf is None else next(left) for leaf in tf.nest.flatten(like, expand_composites=True)]
    return tf.nest.pack_sequence_as(like, whole, expand_composites=True)
