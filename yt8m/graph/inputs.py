"""The input of a graph: the placeholder of files, an iterator over batches, the saver of the iterator's position.

Each tower gets a share of every batch, and the values that the towers compute are combined. A step reads its batch
when it runs; with --prefetch_to_device it takes it from the towers' devices, to which the previous step has copied it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from yt8m import deploy
from yt8m.errors import UsageError
from yt8m.graph.protocols import InputOps, Inputter, Reduction, Report
from yt8m.lazy import tf


class RowShare(NamedTuple):
    """One tower's share of a batch.

    Attributes:
      rows: int64 scalar, the number of rows that count; 0 for a tower that gets no row.
      weight: float32 scalar, `rows` divided by the rows of all towers; the weights add up to 1.
    """

    batch: Any
    rows: tf.Tensor
    weight: tf.Tensor


def count_rows(batch: Any) -> tf.Tensor:
    """int64 scalar: the number of rows of a batch, which is the first dimension of its first tensor."""
    first = next(leaf for leaf in tf.nest.flatten(batch) if leaf is not None)
    return tf.shape(first, out_type=tf.int64)[0]


def split_batch(batch: Any, num_towers: int) -> list[RowShare]:
    """Splits a batch over N towers as evenly as possible.

    Share i starts at row ceil(rows * i / N), so the first tower has the largest share and is never empty. A tower for
    which no row is left gets the last row with weight 0, so that it computes valid shapes and no NaN.

    Args:
      batch: a nest of tensors [rows, ...].
    """
    rows = count_rows(batch)
    if num_towers == 1:
        return [RowShare(batch, rows, tf.ones([]))]
    edges = [-(-rows * i // num_towers) for i in range(num_towers)] + [rows]
    return [_cut_share(batch, rows, edges[i], edges[i + 1]) for i in range(num_towers)]


def _cut_share(batch: Any, rows: tf.Tensor, start: tf.Tensor, end: tf.Tensor) -> RowShare:
    """The share with the rows `start` to `end` (exclusive) of a batch that has `rows` rows."""
    count = end - start
    low = tf.minimum(start, rows - 1)
    high = low + tf.maximum(count, 1)
    part = tf.nest.map_structure(lambda t: None if t is None else t[low:high], batch)
    return RowShare(part, count, tf.cast(count, tf.float32) / tf.cast(rows, tf.float32))


def join_batches(batches: Sequence[Any]) -> list[RowShare]:
    """The shares of the towers if tower i gets the whole of batches[i]; the weights add up to 1."""
    rows = [count_rows(batch) for batch in batches]
    total = tf.cast(tf.add_n(rows), tf.float32)
    return [RowShare(batch, n, tf.cast(n, tf.float32) / total) for batch, n in zip(batches, rows, strict=True)]


def reduce_reports(reports: Sequence[Mapping[str, Report]], shares: Sequence[RowShare]) -> dict[str, tf.Tensor]:
    """Reduces the values that the towers have for each report to one tensor.

    Args:
      reports: for each tower {name: report}; all towers have the same names.
      shares: the share of the batch of each tower.

    Returns:
      {name: tensor, reduced as the report declares}.
    """
    for name, report in reports[0].items():
        _check_reduction(name, report)
    return {
        name: reduce_values([tower[name].tensor for tower in reports], shares, Reduction(first.reduction))
        for name, first in reports[0].items()
    }


def _check_reduction(name: str, report: Report) -> None:
    """Raises `UsageError` if the values of several towers could not be reduced as the report declares."""
    tensor, reduction = tf.convert_to_tensor(report.tensor), report.reduction
    if reduction not in tuple(Reduction):
        problem = f"expected one of {', '.join(Reduction)}"
    elif reduction in (Reduction.ROWS, Reduction.LIST) and tensor.shape.rank == 0:
        problem = "but the tensor is a scalar, without rows to concatenate; use Reduction.MEAN or Reduction.SUM"
    elif reduction == Reduction.MEAN and not tensor.dtype.is_floating:
        problem = f"but the tensor is {tensor.dtype.name}; cast it to a float type"
    elif reduction == Reduction.SUM and tensor.dtype in (tf.bool, tf.string):
        problem = f"but the tensor is {tensor.dtype.name}, which cannot be added; cast it to a number"
    else:
        return
    raise UsageError(f"the report {name!r} is reduced over the towers by {str(reduction)!r}, {problem}.")


def reduce_values(values: Sequence[tf.Tensor], shares: Sequence[RowShare], reduction: Reduction) -> tf.Tensor:
    """Reduces the values of the towers to one value; towers without an example do not count.

    Args:
      shares: the share of the batch of each tower.
    """
    if len(values) == 1:
        return values[0]
    if reduction is Reduction.ROWS:
        return tf.concat([value[: share.rows] for value, share in zip(values, shares, strict=True)], axis=0)
    if reduction is Reduction.LIST:
        counts = [count_rows(v) * tf.cast(share.rows > 0, tf.int64) for v, share in zip(values, shares, strict=True)]
        return tf.concat([value[:count] for value, count in zip(values, counts, strict=True)], axis=0)
    if reduction is Reduction.MEAN:
        return tf.add_n(
            [value * tf.cast(share.weight, value.dtype) for value, share in zip(values, shares, strict=True)]
        )
    return tf.add_n([value * tf.cast(share.rows > 0, value.dtype) for value, share in zip(values, shares, strict=True)])


def create_input(inputter: Inputter, batch_size: int, endless: bool = False) -> tuple[Any, InputOps]:
    """Creates an initializable iterator over batches, and its handles.

    The files are a placeholder without a default: a run that does not feed it fails at once, and a meta-graph
    made on one machine can read other files on another. The iterator's position has a saver of its own. If the position
    were in the collection SAVEABLE_OBJECTS, every checkpoint would contain the shuffle buffers, and `tf.train.Saver()`
    would fail in an imported graph.

    Args:
      endless: whether the iterator goes on with rows of zeros after the last batch, rather than end.

    Returns:
      The iterator and its handles. An element of the iterator is a batch, or, if the inputter numbers its shards, a
      pair: a batch, and the shard number of each row. If `endless`, it is a pair: 1 and such an element, or, after the
      last one, 0 and an element of zeros.
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
            dataset = _append_zeros(dataset)
        iterator = tf.data.make_initializable_iterator(dataset)
        saveable = tf.data.experimental.make_saveable_from_iterator(iterator)
        saver = tf.train.Saver([saveable], max_to_keep=None, name="input_saver")
    return iterator, InputOps(iterator.initializer, files, saver.to_proto().SerializeToString(), begun)


def _append_zeros(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """An endless dataset of pairs: first 1 and each element of `dataset`, then 0 and an element of zeros, forever.

    So the end of the data raises no error. An error on one replica would end the collectives of all replicas.
    """
    ones = tf.data.Dataset.from_tensors(tf.ones([], tf.int64)).repeat()
    zeros = tf.nest.map_structure(_create_zeros, dataset.element_spec)
    endless_zeros = tf.data.Dataset.from_tensors((tf.zeros([], tf.int64), zeros)).repeat()
    return tf.data.Dataset.zip((ones, dataset)).concatenate(endless_zeros)


def _create_zeros(spec: Any) -> Any:
    """Zeros for one component of a dataset's elements, which `spec` describes. A size that is unknown becomes 1.

    For a sparse tensor the result is an empty sparse tensor; for a spec of another kind, such as None, it is None.
    """
    if isinstance(spec, tf.TensorSpec):
        return tf.zeros([size or 1 for size in spec.shape.as_list()], spec.dtype)
    if isinstance(spec, tf.SparseTensorSpec):
        sizes = [size or 1 for size in spec.shape.as_list()]
        return tf.SparseTensor(tf.zeros([0, len(sizes)], tf.int64), tf.zeros([0], spec.dtype), sizes)
    return None


def next_batches(iterator: Any, count: int, ops: InputOps) -> tuple[list[Any], InputOps]:
    """Builds ops that read the next `count` batches.

    Returns:
      The batches in the order of the data; and `ops`, with the shard numbers of their examples if shards are numbered.
    """
    batches, shards = separate_shards(read_in_turn(iterator.get_next, count), ops)
    return batches, with_shards(ops, shards)


def read_in_turn(read: Callable[[], Any], count: int) -> list[Any]:
    """The results of `count` calls of `read`; control dependencies make their ops run in the order of the calls."""
    results: list[Any] = []
    for _ in range(count):
        previous = tf.nest.flatten(results[-1:], expand_composites=True)
        with tf.control_dependencies([leaf for leaf in previous if leaf is not None]):
            results.append(read())
    return results


def separate_shards(elements: Sequence[Any], ops: InputOps) -> tuple[list[Any], tf.Tensor | None]:
    """Separates the elements of the iterator into batches and shard numbers.

    Returns:
      The batches; and int64 [examples of all batches], their shard numbers, or None if shards have no numbers.
    """
    if ops.begun is None:
        return list(elements), None
    with tf.device("/cpu:0"):
        return [batch for batch, _ in elements], tf.concat([numbers for _, numbers in elements], axis=0)


def with_shards(ops: InputOps, shards: tf.Tensor | None) -> InputOps:
    """A copy of `ops` with the shard numbers of the step's examples, int64 [B]; `ops` itself if `shards` is None."""
    if shards is None:
        return ops
    with tf.device("/cpu:0"):
        last = tf.reduce_max(shards, name="input_last_shard")
    return dataclasses.replace(ops, last_shard=last, shards=shards)


def input_saver(ops: InputOps) -> Any:
    """The saver of the iterator's position. It can restore a position only after `ops.initializer` has run."""
    saver_def = tf.train.SaverDef.FromString(ops.saver_def)
    return tf.train.Saver(saver_def=saver_def)


class StepInput(NamedTuple):
    """The input of one step.

    Attributes:
      batch: the batch of this step, from which the graph makes predictions apart from the towers; if each tower has a
        batch of its own, that of the first tower.
      shares: the share of each tower.
      ops: the handles of the input. With prefetch_to_device, the initializer also discards the batch that was copied
        ahead.
      put_next: with prefetch_to_device, the op that copies the next step's shares to the towers' devices; each training
        step runs it. Otherwise None.
    """

    batch: Any
    shares: Sequence[RowShare]
    ops: InputOps
    put_next: tf.Operation | None = None


def read_shares(
    inputter: Inputter,
    deployment: deploy.DeploymentConfig,
    split: bool,
    prefetch: bool = False,
    endless: bool = False,
    in_parts: bool = False,
) -> StepInput:
    """Builds the ops that give every tower its share of each step's batch.

    Args:
      prefetch: whether each step copies the shares of the next step to the towers' devices (prefetch_to_device).
      in_parts: whether tensors of rank 3 and more are not copied ahead, see `Modeler.reads_parts`.
    """
    towers = deployment.num_clones
    with tf.device(deployment.inputs_device()):
        iterator, ops = create_input(inputter, inputter.batch_size * (towers if split else 1), endless)
        if prefetch:
            with tf.name_scope("staged"):
                return _read_prefetched(iterator, ops, deployment, split, in_parts)
        if endless:
            return _read_endless(iterator, ops, towers, split)
        batches, ops = next_batches(iterator, 1 if split else towers, ops)
        shares = split_batch(batches[0], towers) if split else join_batches(batches)
        return StepInput(batches[0], shares, ops)


def _read_endless(iterator: Any, ops: InputOps, towers: int, split: bool) -> StepInput:
    """The input of a step from an iterator that `create_input` made endless; shares of zeros have 0 rows."""
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
    total = tf.cast(tf.maximum(tf.add_n(rows), 1), tf.float32)
    shares = [RowShare(batch, n, tf.cast(n, tf.float32) / total) for batch, n in zip(batches, rows, strict=True)]
    return StepInput(batches[0], shares, ops)


def _read_prefetched(
    iterator: Any, ops: InputOps, deployment: deploy.DeploymentConfig, split: bool, in_parts: bool
) -> StepInput:
    """Builds the input of a step, which takes its shares from buffers that the previous step has filled.

    A step that finds the buffers empty, such as the first, fills them itself. So no batch is lost or repeated, and
    the order is that of the iterator. If the data end while a step reads ahead, the buffers stay empty, and the next
    step reports the end. A damaged record raises an error one step earlier than without buffers, since the previous
    step reads it.
    """
    count = 1 if split else deployment.num_clones
    is_full = DeviceBuffer(deployment.inputs_device(), [tf.bool], "next_step_is_there")
    buffers: list[PrefetchBuffers] = []

    def divide(elements: Sequence[Any]) -> StagedBatch:
        batches, shards = separate_shards(elements, ops)
        shares = split_batch(batches[0], deployment.num_clones) if split else join_batches(batches)
        return StagedBatch(shares, shards)

    def fill() -> tf.Operation:
        first = divide(read_in_turn(iterator.get_next, count))
        buffers.append(PrefetchBuffers(first, deployment, is_full, in_parts))
        return buffers[0].put(first)

    with tf.name_scope("first"):
        fill_op = _run_if(is_full.is_empty(), fill)
    with tf.name_scope("taken"), tf.control_dependencies([fill_op]):
        batch = buffers[0].take()
    with tf.name_scope("next"), tf.control_dependencies([batch.shares[0].rows]):
        optionals = read_in_turn(iterator.get_next_as_optional, count)
        has_next = tf.reduce_all([optional.has_value() for optional in optionals])
        put_next = _run_if(has_next, lambda: buffers[0].put(divide([optional.get_value() for optional in optionals])))
    initializer = tf.group(ops.initializer, *buffers[0].clear(), name="start_anew")
    ops = dataclasses.replace(with_shards(ops, batch.shards), initializer=initializer)
    return StepInput(_join_shares(batch.shares, split), batch.shares, ops, put_next)


def _join_shares(shares: Sequence[RowShare], split: bool) -> Any:
    """The batch that was split into `shares`; if `split` is False, the first tower's own batch."""
    if not split:
        return shares[0].batch
    return tf.nest.map_structure(
        lambda *leaves: None if leaves[0] is None else reduce_values(leaves, shares, Reduction.ROWS),
        *(share.batch for share in shares),
    )


def _run_if(condition: tf.Tensor, build: Callable[[], tf.Operation]) -> tf.Operation:
    """An op that, if `condition` is true when it runs, runs the ops that `build` makes; it completes in either case.

    tf.cond is not used, because it would put the ops into a function, and an error inside a function does not say which
    op failed. The runner needs this op to tell the end of the data from other errors.
    """
    if_false, if_true = tf.raw_ops.Switch(data=condition, pred=condition)
    # The branch depends on these identities, because Switch itself runs whether or not the condition is true.
    skipped, begun = tf.identity(if_false), tf.identity(if_true)
    with tf.control_dependencies([begun]):
        last_op = build()
    with tf.control_dependencies([last_op]):
        ended = tf.identity(begun)
    return tf.raw_ops.Merge(inputs=[skipped, ended]).output.op


class StagedBatch(NamedTuple):
    """The data of one training step, divided for the towers.

    Attributes:
      shares: the shares of the towers, in order.
      shards: int64 [B], the shard number of each example; None if the inputter does not number its shards.
    """

    shares: list[RowShare]
    shards: tf.Tensor | None


class DeviceBuffer:
    """Holds one list of tensors on a device, from one step to the next."""

    def __init__(self, device: str, dtypes: Sequence[tf.DType], name: str) -> None:
        self._device, self._dtypes = device, list(dtypes)
        shared_name = tf.get_default_graph().unique_name(name)
        self._stage_options = {"capacity": 1, "memory_limit": 0, "container": "", "shared_name": shared_name}

    def put(self, values: Sequence[tf.Tensor]) -> tf.Operation:
        """The op that copies `values` into the buffer; it blocks until the previous values have been taken."""
        with tf.device(self._device):
            return tf.raw_ops.Stage(values=list(values), name="put", **self._stage_options)

    def take(self) -> list[tf.Tensor]:
        """The values in the buffer. Fetching them empties the buffer, and blocks while the buffer is empty."""
        with tf.device(self._device):
            return list(tf.raw_ops.Unstage(dtypes=self._dtypes, name="take", **self._stage_options))

    def is_empty(self) -> tf.Tensor:
        """Bool scalar: whether the buffer holds no values."""
        with tf.device(self._device):
            return tf.equal(tf.raw_ops.StageSize(dtypes=self._dtypes, **self._stage_options), 0)

    def clear(self) -> tf.Operation:
        """The op that empties the buffer."""
        with tf.device(self._device):
            return tf.raw_ops.StageClear(dtypes=self._dtypes, **self._stage_options)


class PrefetchBuffers:
    """The buffers that hold the input of one step, one buffer on each device. Either all are full or all are empty."""

    def __init__(
        self, like: StagedBatch, deployment: deploy.DeploymentConfig, is_full: DeviceBuffer, in_parts: bool = False
    ) -> None:
        self._like, self._is_full = like, is_full
        host = deployment.inputs_device()
        self._devices = [
            deployment.clone_device(tower) if _is_worth_copying(leaf, in_parts) else host
            for tower, share in enumerate(like.shares)
            for leaf in _leaves(share)
        ]
        self._devices += [host for _ in _leaves(like.shards)]
        self._buffers = {
            device: DeviceBuffer(device, [leaf.dtype for leaf in self._tensors_on(device, like)], "next_step")
            for device in dict.fromkeys(self._devices)
        }

    def put(self, batch: StagedBatch) -> tf.Operation:
        """The op that copies each tensor of `batch` to the device that needs it, and fills all buffers."""
        put_ops = [buffer.put(self._tensors_on(device, batch)) for device, buffer in self._buffers.items()]
        with tf.control_dependencies(put_ops):
            return self._is_full.put([tf.constant(True)])

    def take(self) -> StagedBatch:
        """The batch in the buffers. Fetching any of its tensors empties all buffers, so that they stay consistent."""
        by_device = {device: buffer.take() for device, buffer in self._buffers.items()}
        with tf.control_dependencies([self._after([tensors[0] for tensors in by_device.values()])]):
            remaining = {device: iter(_copy_on_device(device, tensors)) for device, tensors in by_device.items()}
        leaves = [next(remaining[device]) for device in self._devices]
        for leaf, like in zip(leaves, _leaves(self._like), strict=True):
            leaf.set_shape(like.shape)
        return _pack_like(self._like, leaves)

    def _after(self, taken: Sequence[tf.Tensor]) -> tf.Tensor:
        """A tensor that waits for `taken` and empties `_is_full`. Devices wait for it alone, not for one another."""
        with tf.control_dependencies(taken):
            return self._is_full.take()[0]

    def clear(self) -> list[tf.Operation]:
        """The ops that empty all buffers."""
        return [buffer.clear() for buffer in (*self._buffers.values(), self._is_full)]

    def _tensors_on(self, device: str, batch: StagedBatch) -> list[tf.Tensor]:
        """The tensors of `batch` that belong on `device`."""
        return [leaf for leaf, leaf_device in zip(_leaves(batch), self._devices, strict=True) if leaf_device == device]


def _is_worth_copying(leaf: tf.Tensor, in_parts: bool) -> bool:
    """Whether copying a tensor of a batch to the tower's device one step early saves time.

    It does for features, labels and their weights; not for frames of which a model picks few (`in_parts`). Strings
    cannot be on a GPU, most GPU kernels keep int32 on the host, and copying one number per example takes hardly any
    time.
    """
    dtype = leaf.dtype
    is_number = dtype.is_floating or dtype.is_bool or (dtype.is_integer and dtype != tf.int32)
    rank = leaf.shape.rank or 0
    return is_number and rank >= 2 and not (in_parts and rank > 2)


def _copy_on_device(device: str, tensors: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """An identity op on `device` for each tensor."""
    with tf.device(device):
        return [tf.identity(tensor) for tensor in tensors]


def _leaves(nest: Any) -> list[tf.Tensor]:
    """All tensors in `nest`, including the components of sparse tensors."""
    return [leaf for leaf in tf.nest.flatten(nest, expand_composites=True) if leaf is not None]


def _pack_like(like: Any, leaves: Sequence[tf.Tensor]) -> Any:
    """A nest with the structure of `like` and the tensors `leaves`; None stays where `like` has None."""
    remaining = iter(leaves)
    items = [leaf if leaf is None else next(remaining) for leaf in tf.nest.flatten(like, expand_composites=True)]
    return tf.nest.pack_sequence_as(like, items, expand_composites=True)
