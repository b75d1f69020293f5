"""The interface of a workload (`Inputter`, `Modeler`), and the typed handles of a graph built from it.

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
      records: number of records of one epoch, from the headers in the shards; None if not known. If it is known,
        training counts the records read from each shard and compares every epoch with `expected_records`.
      expected_records: {path of a file: number of records that it should have}.
      shard_order: the settings besides the files that decide the order of shards (a seed), as JSON values.
        If it is given, the engine calls `numbered_dataset` in place of `dataset`, and a resumed run skips the shards
        that were already begun. None: shards have no numbers, and a resumed run without `exact_resume` reads all files
        again from the start.
      example_order: the other settings that decide which examples come in which order, as JSON values. With
        `exact_resume`, a saved position is not used if they have changed.
      calls_python: whether the dataset calls Python functions. A meta-graph cannot hold these, so a resumed run builds
        its graph by code.
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
        """The files that this run reads; fed to the graph, never part of it.

        Raises:
          UsageError: no file matches.
        """

    @abc.abstractmethod
    def dataset(self, files: tf.Tensor, batch_size: int) -> tf.data.Dataset:
        """Batches of `batch_size` examples from the paths `files`; a batch is any nest of tensors [examples, ...]."""

    def numbered_dataset(self, files: tf.Tensor, batch_size: int, begun: tf.Tensor) -> tf.data.Dataset:
        """Yields pairs: a batch as in `dataset`, and int64 [B], the shard number of each example.

        The shards of a run are numbered from 0 in the order in which they are begun, epoch by epoch.

        Args:
          files: string vector of paths.
          batch_size: number of examples in a batch.
          begun: int64 scalar; the first `begun` shards of that sequence are skipped.
        """
        raise NotImplementedError(f"{type(self).__name__} has a shard_order, so it needs numbered_dataset too")

    def epoch_order(self, epoch: int) -> Sequence[str]:
        """The files in the order in which epoch number `epoch` (from 0) opens them; used if `records` is known."""
        return self.files()

    def share(self, index: int, count: int) -> Inputter:
        """The part of the data that replica `index` of `count` reads; by default every `count`-th file.

        Together the parts have every record once.

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
        return _SomeFiles(self, files[index::count])

    def damage(self) -> RunError | None:
        """Called after the input failed. An error that names the damaged shard and record; None if none is damaged."""
        return None

    def bad_records(self) -> Sequence[DamagedError]:
        """The bad records that were skipped so far, in the order in which they were found."""
        return ()

    def zeroed_values(self) -> int:
        """The number of values set to 0 so far because they were NaN, infinite or too large."""
        return 0

    def close(self) -> None:  # noqa: B027 - most hold nothing
        """Releases threads, sessions and files. Called when the run has ended, after success or failure."""


class _SomeFiles(Inputter):
    """Some of the files of another inputter."""

    def __init__(self, whole: Inputter, files: Sequence[str]) -> None:
        self._whole, self._files, self.batch_size = whole, files, whole.batch_size

    def files(self) -> Sequence[str]:
        """The files of this part."""
        return self._files

    def dataset(self, files: tf.Tensor, batch_size: int) -> tf.data.Dataset:
        """The dataset that the other inputter makes of these files."""
        return self._whole.dataset(files, batch_size)


class Modeler(abc.ABC):
    """A model and its loss. Only `build` must be implemented."""

    @abc.abstractmethod
    def build(self, batch: Any, is_training: bool) -> ModelOutput:
        """The model on one tower's share of a batch.

        `loss` is the mean over the share; it may be None if the batch has no labels and
        `is_training` is False. This is called once per tower, on the tower's device; towers share variables.
        """

    def reports(self, batch: Any, output: ModelOutput, mode: str) -> dict[str, Report]:
        """{name: tensor of this share that callbacks can fetch}; `mode` is train, eval or infer."""
        return {}

    def completed(self, reports: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """Completes the fetched reports of a step for the evaluator and the consumers of inference.

        This is called on the host; in evaluation and inference, while the next step runs.
        """
        return reports

    def evaluator(self) -> Evaluator:
        """A fresh evaluator for the reports of this modeler."""
        return MeanLoss()

    def predict(self, batch: Any) -> PredictOps:
        """Evaluation-mode predictions of a whole batch, with the workload's feed points."""
        return PredictOps(predictions=self.build(batch, is_training=False).predictions)

    def restore(self, session: tf.Session) -> None:  # noqa: B027 - most have nothing to add
        """Called after the checkpoint was restored. A modeler can load weights from elsewhere here (a teacher's)."""


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
    """One tensor that a modeler offers to callbacks, and how the towers' values are reduced to one."""

    tensor: tf.Tensor
    reduction: Reduction = Reduction.ROWS


class Evaluator(Protocol):
    """Turns the completed reports of steps into metrics, under the names that are printed."""

    def accumulate(self, reports: Mapping[str, np.ndarray], loss: float | None) -> dict[str, float]:
        """Adds one step; returns the metrics of that step alone."""

    def get(self) -> dict[str, Any]:
        """The metrics of all steps so far."""

    def clear(self) -> None:
        """Forgets all steps."""


class MeanLoss:
    """The evaluator of a modeler without an `evaluator` of its own: the mean loss over steps."""

    def __init__(self) -> None:
        self.clear()

    def accumulate(self, reports: Mapping[str, np.ndarray], loss: float | None) -> dict[str, float]:
        """Adds one step; there are no metrics besides the loss."""
        self._losses += [] if loss is None else [loss]
        return {}

    def get(self) -> dict[str, Any]:
        """`Avg_Loss`, the mean over the steps that had a loss."""
        return {"Avg_Loss": float(np.mean(self._losses))} if self._losses else {}

    def clear(self) -> None:
        """Forgets all steps."""
        self._losses: list[float] = []


@dataclass(frozen=True)
class InputOps:
    """The input side of a graph.

    Attributes:
      initializer: starts the iterator at the first record of the files that are fed.
      files: string [None] placeholder of paths; must be fed when `initializer` runs.
      saver_def: serialized SaverDef of the saver of the iterator's position.
      begun: int64 scalar, the number of shards to skip at the start of the run's sequence of shards (see
        `Inputter.numbered_dataset`); 0 unless fed when `initializer` runs; None if the inputter does not number shards.
      last_shard: int64 scalar, the largest shard number (in that sequence) among the step's examples, if numbered.
      shards: int64 [B], the shard number of each example; None if the inputter does not number shards.
    """

    initializer: tf.Operation
    files: tf.Tensor
    saver_def: bytes
    begun: tf.Tensor | None = None
    last_shard: tf.Tensor | None = None
    shards: tf.Tensor | None = None


@dataclass(frozen=True)
class PredictOps:
    """Evaluation-mode predictions, and the tensors that can be fed; nothing here runs unless fetched.

    Attributes:
      predictions: float32 [B, C] of the current batch, or of the values fed.
      input_batch_raw: float [B, D] or [B, T, D], dequantised, zero past num_frames; if it (and
        num_frames) is fed, no input is read.
      input_batch: `input_batch_raw` after the input transform of the model.
      num_frames: int32 [B].
      labels, video_ids, label_weights: as in the batch, if the workload has them.
      histograms: {tag: values} whose histograms a training writes with its summaries.
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
    """One training step.

    Attributes:
      train_op: applies the gradients, runs the update ops, updates the averages, increments the global step.
      global_step: int64 scalar, the variable's value. Fetched together with train_op, it may be read before or after
        the step.
      step: int64 scalar, the global step read after train_op: fetching it runs the step.
      learning_rate: float32 scalar of this step.
      label_loss, regularization_loss, total_loss: float32 scalars; total = label + penalty * regularization.
      examples: int64 scalar, examples of this step over all towers.
      gradient_norms: float32 [V] before clipping, in the order of `gradient_variables`.
      gradient_variables: names of the V variables.
      bad_tower: int64 scalar, the first tower whose gradients are not finite; -1 if there is none, or if the
        towers depend on each other.
      predictions: [B, ...] training-mode predictions of the step, from all towers.
      reports: {name: report of the modeler}, reduced over the towers.
      summary_op: merged summary of scalars, and of histograms of gradients and weights; fetch it with `train_op`.
      predict: the evaluation-mode path outside of the towers.
      input: the input side.
      averages: (variable's name, its average's name) pairs; empty without moving averages.
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
    """One step of evaluation or inference.

    Attributes:
      global_step: int64 scalar, the global step of the restored checkpoint.
      label_loss: scalar, or None if the batch has no labels (inference).
      examples: int64 scalar, examples of this step.
      reports: {name: report of the modeler}, reduced over the towers.
      summary_op: the loss of the step for TensorBoard; None if there is none.
      predict: predictions and feed points.
      input: the input side.
    """

    global_step: tf.Tensor
    examples: tf.Tensor
    predict: PredictOps
    input: InputOps
    label_loss: tf.Tensor | None = None
    reports: Mapping[str, tf.Tensor] = field(default_factory=dict)
    summary_op: tf.Tensor | None = None
