"""The interface of a workload (`Inputter`, `Modeler`), and the typed handles of a graph that is built from a workload.

Nothing here depends on videos. `yt8m.readers.BatchQueue` and `yt8m.video.modeler.VideoModeler` are the workload of
this project, `examples/cifar10` has another one.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from yt8m import storage
from yt8m.errors import RunError, UsageError
from yt8m.records.shards import DamagedError
from yt8m.types import ModelOutput

if TYPE_CHECKING:
    import tensorflow.compat.v1 as tf


class Inputter(abc.ABC):
    """Files, and how to make batches of them. Only `batch_size`, `files` and `dataset` must be implemented.

    Attributes:
      batch_size: number of examples per tower and step.
      num_epochs: number of passes over the files; None if endless or unknown.
      records: number of records of one epoch; None if not known. If it is known, training counts the records that it
        reads, and compares their number with the sum of `expected_records` for every epoch.
      expected_records: {path of a file: number of records that it should have}.
      shard_order: {name: JSON value} of the settings, besides the files, that decide the order of shards, such as a
        seed. If it is not None, the engine calls `numbered_dataset` in place of `dataset`, and a resumed run skips the
        shards that the former run has begun. None: shards have no numbers, and a resumed run without `exact_resume`
        reads all files again from the start.
      example_order: {name: JSON value} of the other settings that decide which examples come in which order. With
        `exact_resume`, a saved position is not used if `example_order` has changed.
      calls_python: whether the dataset calls Python functions. A meta-graph cannot hold these, so a resumed run builds
        its graph anew from the code.
    """

    batch_size: int
    num_epochs: int | None = None
    records: int | None = None
    expected_records: Mapping[str, int] = MappingProxyType({})
    shard_order: Mapping[str, Any] | None = None
    example_order: Mapping[str, Any] = MappingProxyType({})
    calls_python: bool = False

    @abc.abstractmethod
    def files(self) -> Sequence[str]:
        """The paths of the files that this run reads. They are fed to the graph and never stored in it.

        Raises:
          UsageError: no file matches.
        """

    def contents(self) -> Mapping[str, Any]:
        """{path of a file: JSON value that another content of the file does not have}, for some or all of the files.

        With `exact_resume`, a saved position is not used if a value has changed. The values should stay if a damaged
        file is repaired. By default they are checksums of parts of the files on this machine.
        """
        return storage.samples(list(self.files()))

    def pack_batches(self) -> None:  # noqa: B027 - most inputters have no smaller form of a batch
        """Makes the batches of later datasets smaller, in a form from which `Modeler.unpacked` restores them.

        The engine calls this if the towers are on other devices, to which every batch is copied.
        """

    @abc.abstractmethod
    def dataset(self, files: tf.Tensor, batch_size: int) -> tf.data.Dataset:
        """The batches of examples in some files; a batch is any nest of tensors [examples, ...].

        Args:
          files: string vector of paths.
          batch_size: number of examples in a batch.
        """

    def numbered_dataset(self, files: tf.Tensor, batch_size: int, begun: tf.Tensor) -> tf.data.Dataset:
        """A dataset of pairs: a batch as in `dataset`, and int64 [B], the shard number of each example.

        The shards of a run are numbered from 0 in the order in which reading them begins, epoch by epoch.

        Args:
          files: string vector of paths.
          batch_size: number of examples in a batch.
          begun: int64 scalar; shards with a number below this are skipped.
        """
        raise NotImplementedError(f"{type(self).__name__} has a shard_order, so it needs numbered_dataset too")

    def changed_files(self) -> Sequence[str]:
        """The files that changed after the start; used only if an epoch did not have the expected number of records."""
        return ()

    def share(self, index: int, count: int) -> Inputter:
        """The part of the data that one replica of a cluster reads; by default every `count`-th file.

        Together the parts of all replicas have every record once.

        Args:
          index: index of the replica, from 0.
          count: number of replicas.

        Returns:
          An inputter for this part.

        Raises:
          UsageError: there are fewer files than replicas, and this class does not divide the records of a file.
        """
        files = self.files()
        if len(files) < count:
            raise UsageError(
                f"there are {len(files)} files for {count} processes, and {type(self).__name__} does not divide "
                "the records of a file: its share(index, count) is the default one. Cut the data into more files, "
                "start fewer workers, or override share."
            )
        return _PartialInputter(self, files[index::count])

    def damage(self) -> RunError | None:
        """An error that names the damaged shard and record; the engine calls this after reading the input has failed.

        Returns:
          The error; None if no shard is damaged.
        """
        return None

    def bad_records(self) -> Sequence[DamagedError]:
        """The errors of the bad records that were skipped so far, in the order in which they were found."""
        return ()

    def zeroed_values(self) -> int:
        """The number of values set to 0 so far because they were NaN, infinite or too large."""
        return 0

    def close(self) -> None:  # noqa: B027 - most inputters hold nothing that must be released
        """Releases threads, sessions and files. The engine calls this when the run has ended or failed."""


class _PartialInputter(Inputter):
    """An inputter that reads some of the files of another inputter; its shards have no numbers."""

    def __init__(self, inputter: Inputter, files: Sequence[str]) -> None:
        self._inputter, self._files, self.batch_size = inputter, files, inputter.batch_size

    def pack_batches(self) -> None:
        self._inputter.pack_batches()

    def files(self) -> Sequence[str]:
        """The files of this part."""
        return self._files

    def dataset(self, files: tf.Tensor, batch_size: int) -> tf.data.Dataset:
        """The dataset that the other inputter makes of `files`."""
        return self._inputter.dataset(files, batch_size)


class Modeler(abc.ABC):
    """A model and its loss. Only `build` must be implemented.

    Attributes:
      reads_parts: whether training reads only small parts of the tensors of rank 3 and more, where these are. With
        `prefetch_to_device` they stay in the host's memory, since copying them whole would take longer.
      unpacks: whether `unpacked` restores what `Inputter.pack_batches` makes smaller.
    """

    reads_parts: bool = False
    unpacks: bool = False

    def unpacked(self, batch: Any) -> Any:
        """A batch, or a tower's share of one, as the other methods take it.

        The engine calls this once for each tower, on the tower's device.
        """
        return batch

    @abc.abstractmethod
    def build(self, batch: Any, is_training: bool) -> ModelOutput:
        """Builds the model for one tower's share of a batch.

        The engine calls this once per tower, on the tower's device; towers share variables.

        Args:
          batch: the tower's share, a nest of tensors like the batches of the inputter's dataset.
          is_training: whether the graph trains the model.

        Returns:
          Predictions and loss. `loss` is the mean over the share; it may be None if the batch has no labels and
          `is_training` is False.
        """

    def reports(self, batch: Any, output: ModelOutput, mode: str) -> dict[str, Report]:
        """The tensors that callbacks and the evaluator can fetch in each step.

        Args:
          batch: one tower's share of a batch.
          output: what `build` returned for this share.
          mode: train, eval or infer.

        Returns:
          {name: tensor, and how the tensors of all towers are reduced to one}.
        """
        return {}

    def completed(self, reports: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Adds to the fetched reports of a step what is computed from them by NumPy rather than in the graph.

        In evaluation and inference this runs on the host while the graph computes the next step.

        Args:
          reports: {name: fetched value, reduced over the towers}.

        Returns:
          The reports for the evaluator or for the consumer of predictions.
        """
        return reports

    def evaluator(self) -> Evaluator:
        """A fresh evaluator for the reports of this modeler."""
        return MeanLoss()

    def predict(self, batch: Any) -> PredictOps:
        """Builds predictions of a batch in evaluation mode, and names the tensors that can be fed.

        Args:
          batch: a whole batch, not the share of a tower.
        """
        return PredictOps(predictions=self.build(batch, is_training=False).predictions)

    def restore(self, session: tf.Session) -> None:  # noqa: B027 - most modelers load nothing else
        """Loads weights that are not in the checkpoint of the run, such as those of a teacher.

        The engine calls this after it has restored the checkpoint.

        Args:
          session: the session of the run.
        """


def check_workload(inputter: Inputter, modeler: Modeler) -> None:
    """Checks that both objects are derived from the base classes.

    Raises:
      UsageError: one of them is not derived from its base class.
    """
    for member, base in ((inputter, Inputter), (modeler, Modeler)):
        if not isinstance(member, base):
            raise UsageError(
                f"{type(member).__name__} is not derived from yt8m.graph.{base.__name__}, which has defaults for the "
                f"members that the engine uses; write class {type(member).__name__}({base.__name__})."
            )


class Reduction(StrEnum):
    """How the towers' values of one report are reduced to one.

    ROWS: one row per example, concatenated in the order of the batch.
    LIST: any number of rows, concatenated; a tower without an example adds no row.
    MEAN: averaged, weighted by the number of examples of each tower.
    SUM: added; a tower without an example adds nothing.
    """

    ROWS = "rows"
    LIST = "list"
    MEAN = "mean"
    SUM = "sum"


class Report(NamedTuple):
    """One tensor that callbacks and the evaluator can fetch.

    Attributes:
      tensor: the value on one tower.
      reduction: how the values of all towers are reduced to one.
    """

    tensor: tf.Tensor
    reduction: Reduction = Reduction.ROWS


class Evaluator(Protocol):
    """Turns the reports of steps, completed by `Modeler.completed`, into metrics with the names that are printed."""

    def accumulate(self, reports: Mapping[str, np.ndarray], loss: float | None) -> dict[str, float]:
        """Adds one step, and returns the metrics of that step alone, as {name: value}.

        Args:
          reports: {name: value} of the step's reports, as `Modeler.completed` returns them.
          loss: the mean loss of the step; None if the batch has no labels.
        """

    def get(self) -> dict[str, Any]:
        """The metrics of all steps so far, as {name: value}."""

    def clear(self) -> None:
        """Forgets all steps."""


class MeanLoss:
    """Computes the mean loss over steps; the evaluator of a modeler that does not override `evaluator`."""

    def __init__(self) -> None:
        self.clear()

    def accumulate(self, reports: Mapping[str, np.ndarray], loss: float | None) -> dict[str, float]:
        """Adds the loss of one step, if it has one. Returns no metrics: a step has none besides its loss."""
        self._losses += [] if loss is None else [loss]
        return {}

    def get(self) -> dict[str, Any]:
        """{"Avg_Loss": the mean over the steps that had a loss}; {} if no step had one."""
        return {"Avg_Loss": float(np.mean(self._losses))} if self._losses else {}

    def clear(self) -> None:
        """Forgets all steps."""
        self._losses: list[float] = []


@dataclass(frozen=True)
class InputOps:
    """The handles of a graph's input.

    Attributes:
      initializer: the op that starts the iterator at the first record of the files that are fed.
      files: string [None] placeholder of paths; must be fed when `initializer` runs.
      saver_def: serialized SaverDef of the saver of the iterator's position.
      begun: int64 scalar, 0 unless fed when `initializer` runs: shards with a number below this are skipped (see
        `Inputter.numbered_dataset`). None if the inputter does not number shards.
      last_shard: int64 scalar, the largest shard number among the step's examples; None if the inputter does not number
        shards.
      shards: int64 [B], the shard number of each example of the step; None if the inputter does not number shards.
    """

    initializer: tf.Operation
    files: tf.Tensor
    saver_def: bytes
    begun: tf.Tensor | None = None
    last_shard: tf.Tensor | None = None
    shards: tf.Tensor | None = None


@dataclass(frozen=True)
class PredictOps:
    """Predictions in evaluation mode, which are computed only if they are fetched, and the tensors that can be fed.

    A workload that does not have one of the other tensors leaves it None.

    Attributes:
      predictions: float32 [B, C], for the current batch, or for the values that are fed.
      input_batch_raw: float [B, D] or [B, T, D], the dequantised features, 0 after the last frame of a video. If
        `input_batch_raw` and `num_frames` are fed, no input is read.
      input_batch: `input_batch_raw` after the input transform of the model.
      num_frames: int32 [B], number of frames of each video.
      labels: float32 [B, C], those of `yt8m.types.Batch` as numbers.
      video_ids, label_weights: as in `yt8m.types.Batch`.
      histograms: {tag: tensor}; a training writes a histogram of each tensor with its summaries.
    """

    predictions: tf.Tensor
    input_batch_raw: tf.Tensor | None = None
    input_batch: tf.Tensor | None = None
    num_frames: tf.Tensor | None = None
    labels: tf.Tensor | None = None
    video_ids: tf.Tensor | None = None
    label_weights: tf.Tensor | None = None
    histograms: Mapping[str, tf.Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class TrainOps:
    """The handles of one training step.

    Attributes:
      train_op: the op of the step. It applies the gradients, runs the update ops, updates the moving averages and
        increments the global step.
      global_step: int64 scalar, the value of the global step. If it is fetched together with `train_op`, it may be read
        before or after the step.
      step: int64 scalar, the global step read after `train_op`: fetching it runs the step.
      learning_rate: float32 scalar, the learning rate of this step.
      label_loss, regularization_loss, total_loss: float32 scalars; total = label + penalty * regularization,
        where penalty is --regularization_penalty.
      examples: int64 scalar, number of examples of this step over all towers.
      gradient_norms: float32 [V], the norms of the gradients before clipping, in the order of `gradient_variables`.
      gradient_variables: names of the V variables that have a gradient.
      bad_tower: int64 scalar, the index of the first tower whose gradients are not finite; -1 if there is none, or if
        the towers depend on each other (--sync_batch_norm).
      predictions: [B, ...], the predictions of all towers in training mode.
      reports: {name: the modeler's report of this name, reduced over the towers}.
      summary_op: merged summary of scalars, and of histograms of gradients and weights; fetch it with `train_op`.
      predict: predictions in evaluation mode, computed apart from the towers.
      input: the handles of the input.
      averages: a pair for each moving average: (name of the variable, name of its average); empty if there are none.
    """

    train_op: tf.Operation
    global_step: tf.Tensor
    step: tf.Tensor
    learning_rate: tf.Tensor
    label_loss: tf.Tensor
    regularization_loss: tf.Tensor
    total_loss: tf.Tensor
    examples: tf.Tensor
    gradient_norms: tf.Tensor
    gradient_variables: tuple[str, ...]
    predictions: tf.Tensor
    reports: Mapping[str, tf.Tensor]
    summary_op: tf.Tensor
    predict: PredictOps
    input: InputOps
    averages: tuple[tuple[str, str], ...] = ()
    bad_tower: tf.Tensor | None = None


@dataclass(frozen=True)
class EvalOps:
    """The handles of one step of evaluation or inference.

    Attributes:
      global_step: int64 scalar, the global step of the restored checkpoint.
      label_loss: scalar, or None if the batch has no labels (inference).
      examples: int64 scalar, number of examples of this step.
      reports: {name: the modeler's report of this name, reduced over the towers}.
      summary_op: a summary of the step's loss for TensorBoard; None if there is no loss.
      predict: predictions of a batch, and the tensors that can be fed.
      input: the handles of the input.
    """

    global_step: tf.Tensor
    examples: tf.Tensor
    predict: PredictOps
    input: InputOps
    label_loss: tf.Tensor | None = None
    reports: Mapping[str, tf.Tensor] = field(default_factory=dict)
    summary_op: tf.Tensor | None = None
