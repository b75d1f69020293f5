"""The input of a graph: the placeholder of files, an iterator, the saver of its position, and the towers' shares.

Batches are split over the towers, and the values that the towers compute are combined. A step reads its batch when it
runs, or takes it from the towers' devices, where the previous step has put it (prefetch_to_device).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from yt8m import deploy
from yt8m.graph.protocols import InputOps, Inputter, Reduction, Report
from yt8m.lazy import tf


class RowShare(NamedTuple):
    """One tower's share of a batch.

    Attributes:
      batch: the tower's rows; if it has none, one row of another tower with weight 0.
      rows: int64 scalar, the tower's true number of rows.
      weight: float32 scalar, rows / rows of all towers; the weights add up to 1.
    """

    batch: Any
    rows: tf.Tensor
    weight: tf.Tensor


def count_rows(batch: Any) -> tf.Tensor:
    """int64 scalar: the first dimension of the nest's first tensor."""
    first = next(leaf for leaf in tf.nest.flatten(batch) if leaf is not None)
    return tf.shape(first, out_type=tf.int64)[0]


def split_batch(batch: Any, num_towers: int) -> list[RowShare]:
    """Splits a nest of tensors (first dimension: examples) as evenly as possible.

    Part i starts at ceil(rows * i / N), so the first tower has the largest part and is never empty.
    A tower without rows gets the last row with weight 0, so that shapes stay valid and nothing is NaN.
    """
    rows = count_rows(batch)
    if num_towers == 1:
        return [RowShare(batch, rows, tf.ones([]))]
    edges = [-(-rows * i // num_towers) for i in range(num_towers)] + [rows]
    return [_cut(batch, rows, edges[i], edges[i + 1]) for i in range(num_towers)]


def _cut(batch: Any, rows: tf.Tensor, start: tf.Tensor, end: tf.Tensor) -> RowShare:
    real = end - start
    low = tf.minimum(start, rows - 1)
    high = low + tf.maximum(real, 1)
    part = tf.nest.map_structure(lambda t: None if t is None else t[low:high], batch)
    return RowShare(part, real, tf.cast(real, tf.float32) / tf.cast(rows, tf.float32))


def join_batches(batches: Sequence[Any]) -> list[RowShare]:
    """The shares of the towers if each tower gets one whole batch."""
    rows = [count_rows(batch) for batch in batches]
    total = tf.cast(tf.add_n(rows), tf.float32)
    return [RowShare(batch, n, tf.cast(n, tf.float32) / total) for batch, n in zip(batches, rows, strict=True)]


def reduce_reports(reports: Sequence[Mapping[str, Report]], shares: Sequence[RowShare]) -> dict[str, tf.Tensor]:
    """One tensor per name, reduced as each report declares."""
    return {
        name: reduce_values([tower[name].tensor for tower in reports], shares, first.reduction)
        for name, first in reports[0].items()
    }


def reduce_values(values: Sequence[tf.Tensor], shares: Sequence[RowShare], reduction: Reduction) -> tf.Tensor:
    """Reduces the values of the towers to one; ignores towers without an example."""
    if len(values) == 1:
        return values[0]
    if reduction is Reduction.ROWS:
        return tf.concat([value[: share.rows] for value, share in zip(values, shares, strict=True)], axis=0)
    if reduction is Reduction.LIST:
        counts = [count_rows(v) * tf.cast(share.rows > 0, tf.int64) for v, share in zip(values, shares, strict=True)]
        return tf.concat([value[:count] for value, count in zip(values, counts, strict=True)], axis=0)
    if reduction is Reduction.MEAN:
        return tf.add_n([value * share.weight for value, share in zip(values, shares, strict=True)])
    return tf.add_n([value * tf.cast(share.rows > 0, value.dtype) for value, share in zip(values, shares, strict=True)])


def create_input(inputter: Inputter, batch_size: int, endless: bool = False) -> tuple[Any, InputOps]:
    """An initializable iterator over batches of `batch_size`, and its handles.

    The files are a placeholder without a default: a run that does not feed it fails at once, and a meta-graph
    made on one machine can read other files on another. The iterator's position has a saver of its own, because in
    the collection SAVEABLE_OBJECTS it would put shuffle buffers into every checkpoint, and break `Saver()` after an
    import. If the inputter numbers its shards, an element of the iterator is a pair: a batch, and the shard number of
    each row. If `endless`, the elements are the pairs of `_with_empty_batches`, and the iterator never ends.
    """
    files = tf.placeholder(tf.string, [None], name="input_files")
    with tf.device("/cpu:0"):
        begun = None
        if inputter.shard_order is not None:
            begun = tf.placeholder_with_default(tf.zeros([], tf.int64), [], name="input_begun")
            dataset = inputter.numbered_dataset(files, batch_size, begun)
        else:
            dataset = inputter.dataset(files, batch_size)
        if endless:
            dataset = _with_empty_batches(dataset)
        iterator = tf.data.make_initializable_iterator(dataset)
        saveable = tf.data.experimental.make_saveable_from_iterator(iterator)
        saver = tf.train.Saver([saveable], max_to_keep=None, name="input_saver")
    return iterator, InputOps(iterator.initializer, files, saver.to_proto().SerializeToString(), begun)


def _with_empty_batches(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Pairs: 1 and an element of `dataset`; after the last element, 0 and zeros without end.

    So the end of the data raises no error, which would end the collectives of all replicas.
    """
    ones = tf.data.Dataset.from_tensors(tf.ones([], tf.int64)).repeat()
    empty = tf.nest.map_structure(_zeros, dataset.element_spec)
    after = tf.data.Dataset.from_tensors((tf.zeros([], tf.int64), empty)).repeat()
    return tf.data.Dataset.zip((ones, dataset)).concatenate(after)


def _zeros(spec: Any) -> Any:
    """One row of zeros for a tensor, or an empty sparse tensor; None for None."""
    if isinstance(spec, tf.TensorSpec):
        return tf.zeros([size or 1 for size in spec.shape.as_list()], spec.dtype)
    if isinstance(spec, tf.SparseTensorSpec):
        sizes = [size or 1 for size in spec.shape.as_list()]
        return tf.SparseTensor(tf.zeros([0, len(sizes)], tf.int64), tf.zeros([0], spec.dtype), sizes)
    return None


def next_batches(iterator: Any, count: int, ops: InputOps) -> tuple[list[Any], InputOps]:
    """Reads `count` batches in order, the i-th for tower i; returns them, and `ops` with the shard handles added."""
    batches, shards = separate_shards(read_in_turn(iterator.get_next, count), ops)
    return batches, with_shards(ops, shards)


def read_in_turn(read: Callable[[], Any], count: int) -> list[Any]:
    """Calls `read` `count` times; control dependencies make the ops run in this order."""
    results: list[Any] = []
    for _ in range(count):
        before = tf.nest.flatten(results[-1:], expand_composites=True)
        with tf.control_dependencies([leaf for leaf in before if leaf is not None]):
            results.append(read())
    return results


def separate_shards(elements: Sequence[Any], ops: InputOps) -> tuple[list[Any], tf.Tensor | None]:
    """Splits elements of the iterator into the batches and the shard number of each example (None if not numbered)."""
    if ops.begun is None:
        return list(elements), None
    with tf.device("/cpu:0"):
        return [batch for batch, _ in elements], tf.concat([numbers for _, numbers in elements], axis=0)


def with_shards(ops: InputOps, shards: tf.Tensor | None) -> InputOps:
    """`ops` with the shard numbers of the step's examples; unchanged if `shards` is None."""
    if shards is None:
        return ops
    with tf.device("/cpu:0"):
        last = tf.reduce_max(shards, name="input_last_shard")
    return dataclasses.replace(ops, last_shard=last, shards=shards)


def input_saver(ops: InputOps) -> Any:
    """The saver of the iterator's position; restore only after `ops.initializer` has run."""
    saver_def = tf.train.SaverDef.FromString(ops.saver_def)
    return tf.train.Saver(saver_def=saver_def)


class StepInput(NamedTuple):
    """The input of one step.

    Attributes:
      batch: a whole batch, for the predict path.
      shares: the shares of the towers.
      ops: the handles of the input. With prefetch_to_device, the initializer also discards the staged batch.
      put_next: with prefetch_to_device, the op that stages the next step's shares; each training step runs it.
    """

    batch: Any
    shares: Sequence[RowShare]
    ops: InputOps
    put_next: tf.Operation | None = None


def read_shares(
    inputter: Inputter, deployment: deploy.DeploymentConfig, split: bool, ahead: bool = False, endless: bool = False
) -> StepInput:
    """The input of one step.

    Args:
      inputter: gives the batches.
      deployment: the towers and their devices.
      split: whether each step splits one batch over the towers; if false, each tower gets a batch of its own.
      ahead: whether the previous step copies the shares to the towers' devices (prefetch_to_device).
      endless: whether steps after the end of the data get a row of zeros, which counts as no example.
    """
    towers = deployment.num_clones
    with tf.device(deployment.inputs_device()):
        iterator, ops = create_input(inputter, inputter.batch_size * (towers if split else 1), endless)
        if ahead:
            with tf.name_scope("staged"):
                return _stage(iterator, ops, deployment, split)
        if endless:
            return _read_endless(iterator, ops, towers, split)
        batches, ops = next_batches(iterator, 1 if split else towers, ops)
        shares = split_batch(batches[0], towers) if split else join_batches(batches)
        return StepInput(batches[0], shares, ops)


def _read_endless(iterator: Any, ops: InputOps, towers: int, split: bool) -> StepInput:
    """The input of a step from an `endless` iterator; shares of zeros have 0 rows."""
    elements = read_in_turn(iterator.get_next, 1 if split else towers)
    batches, _ = separate_shards([element for _, element in elements], ops)
    flags = [flag for flag, _ in elements]
    if ops.begun is not None:
        shards = tf.concat([numbers[: flag * count_rows(numbers)] for flag, (_, numbers) in elements], axis=0)
        last = tf.reduce_max(tf.concat([[tf.constant(-1, shards.dtype)], shards], axis=0), name="input_last_shard")
        ops = dataclasses.replace(ops, last_shard=last, shards=shards)
    if split:
        shares = [share._replace(rows=share.rows * flags[0]) for share in split_batch(batches[0], towers)]
        return StepInput(batches[0], shares, ops)
    rows = [count_rows(batch) * flag for batch, flag in zip(batches, flags, strict=True)]
    whole = tf.cast(tf.maximum(tf.add_n(rows), 1), tf.float32)
    shares = [RowShare(batch, n, tf.cast(n, tf.float32) / whole) for batch, n in zip(batches, rows, strict=True)]
    return StepInput(batches[0], shares, ops)


def _stage(iterator: Any, ops: InputOps, deployment: deploy.DeploymentConfig, split: bool) -> StepInput:
    """The input of a step, taken from buffers that each step fills for the next.

    A step that finds the buffers empty, such as the first, fills them itself. So no batch is lost or repeated, and
    the order is that of the iterator. If reading ahead meets the end of the data, it stages nothing, and the next
    step reports the end. A damaged record raises one step earlier than without prefetch, since the previous step
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
        optionals = read_in_turn(iterator.get_next_as_optional, count)
        has_next = tf.reduce_all([optional.has_value() for optional in optionals])
        put = _if(has_next, lambda: buffers[0].put(staged([optional.get_value() for optional in optionals])))
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

    tf.cond would put the ops into a function, and an error inside a function does not name the failing op. But the end
    of the data is recognised by the op that reports it.
    """
    no, yes = tf.raw_ops.Switch(data=condition, pred=condition)
    # The branch depends on these identities, because Switch itself runs whether or not the condition holds.
    skipped, begun = tf.identity(no), tf.identity(yes)
    with tf.control_dependencies([begun]):
        done = build()
    with tf.control_dependencies([done]):
        ended = tf.identity(begun)
    return tf.raw_ops.Merge(inputs=[skipped, ended]).output.op


class StagedBatch(NamedTuple):
    """The data of one training step.

    Attributes:
      shares: the shares of the towers, in order.
      shards: int64 [B], the shard number of each example; None if the inputter does not number its shards.
    """

    shares: list[RowShare]
    shards: tf.Tensor | None


class DeviceBuffer:
    """Holds one list of tensors on a device, from one step to the next.

    Args:
      device: the device of the tensors.
      dtypes: the types of the tensors.
      name: the name of the buffer; made unique in the graph.
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
        """Bool scalar: whether the buffer holds no values."""
        with tf.device(self._device):
            return tf.equal(tf.raw_ops.StageSize(dtypes=self._dtypes, **self._room), 0)

    def clear(self) -> tf.Operation:
        """Empties the buffer."""
        with tf.device(self._device):
            return tf.raw_ops.StageClear(dtypes=self._dtypes, **self._room)


class PrefetchBuffers:
    """The buffers for one step's input, one on each device. Either all are full or all are empty.

    Args:
      like: a batch with the types and shapes of all batches.
      deployment: the devices.
      is_full: a buffer of one bool on the host, which is filled last; while it is empty, all buffers are.
    """

    def __init__(self, like: StagedBatch, deployment: deploy.DeploymentConfig, is_full: DeviceBuffer) -> None:
        self._like, self._is_full = like, is_full
        host = deployment.inputs_device()
        self._devices = [
            deployment.clone_device(tower) if _is_for_device(leaf) else host
            for tower, share in enumerate(like.shares)
            for leaf in _leaves(share)
        ]
        self._devices += [host for _ in _leaves(like.shards)]
        self._buffers = {
            device: DeviceBuffer(device, [leaf.dtype for leaf in self._on(device, like)], "next_step")
            for device in dict.fromkeys(self._devices)
        }

    def put(self, batch: StagedBatch) -> tf.Operation:
        """Puts each part of `batch` on the device that needs it."""
        puts = [buffer.put(self._on(device, batch)) for device, buffer in self._buffers.items()]
        with tf.control_dependencies(puts):
            return self._is_full.put([tf.constant(True)])

    def take(self) -> StagedBatch:
        """Removes and returns the staged batch.

        Fetching only a part of it empties all buffers too, so that they stay consistent.
        """
        by_device = {device: buffer.take() for device, buffer in self._buffers.items()}
        with tf.control_dependencies([part[0] for part in (*by_device.values(), self._is_full.take())]):
            taken = {device: iter(_identities(device, part)) for device, part in by_device.items()}
        leaves = [next(taken[device]) for device in self._devices]
        for leaf, before in zip(leaves, _leaves(self._like), strict=True):
            leaf.set_shape(before.shape)
        return _packed(self._like, leaves)

    def clear(self) -> list[tf.Operation]:
        """Empties all buffers."""
        return [buffer.clear() for buffer in (*self._buffers.values(), self._is_full)]

    def _on(self, device: str, batch: StagedBatch) -> list[tf.Tensor]:
        return [leaf for leaf, of_leaf in zip(_leaves(batch), self._devices, strict=True) if of_leaf == device]


def _is_for_device(leaf: tf.Tensor) -> bool:
    """Whether an early copy saves time: it does for features, labels and their weights.

    Strings cannot be on a GPU, most GPU kernels keep int32 on the host, and copying one number per example costs
    next to nothing.
    """
    dtype = leaf.dtype
    is_number = dtype.is_floating or dtype.is_bool or (dtype.is_integer and dtype != tf.int32)
    return is_number and leaf.shape.rank is not None and leaf.shape.rank >= 2


def _identities(device: str, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    with tf.device(device):
        return [tf.identity(tensor) for tensor in tensors]


def _leaves(nest: Any) -> list[tf.Tensor]:
    """All tensors in `nest`, including the components of sparse tensors."""
    return [leaf for leaf in tf.nest.flatten(nest, expand_composites=True) if leaf is not None]


def _packed(like: Any, leaves: Sequence[tf.Tensor]) -> Any:
    """Packs `leaves` into the structure of `like`; each None in `like` stays None."""
    remaining = iter(leaves)
    whole = [leaf if leaf is None else next(remaining) for leaf in tf.nest.flatten(like, expand_composites=True)]
    return tf.nest.pack_sequence_as(like, whole, expand_composites=True)
