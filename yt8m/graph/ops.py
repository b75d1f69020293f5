"""The typed handles of a built graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import tensorflow.compat.v1 as tf


class Reduction(StrEnum):
    """How the towers' values of one report become one.

    ROWS: a row an example, concatenated in the order of the batch.
    LIST: any number of rows, concatenated; a tower without an example adds none.
    MEAN: averaged, weighted by how many examples each tower had.
    SUM: added; a tower without an example adds nothing.
    """

    ROWS = "rows"
    LIST = "list"
    MEAN = "mean"
    SUM = "sum"


class Report(NamedTuple):
    """One tensor that a modeler offers to callbacks, and how the towers' share one value."""

    tensor: tf.Tensor
    reduction: Reduction = Reduction.ROWS


@dataclass(frozen=True)
class InputOps:
    """The input side of a graph.

    Attributes:
      initializer: starts the iterator at the first record of the files fed.
      files: string [None] placeholder; must be fed when `initializer` runs.
      saver_def: serialized SaverDef of the iterator's position, a saver of its own.
      begun: int64 scalar, 0 unless fed when `initializer` runs: so many shards of the run's sequence (epoch
        by epoch, each in its order) are left out; None where the inputter does not number its shards.
      last_shard: int64 scalar, the largest number in that sequence of a shard that the step has records of.
      shards: int64 [B], of each example of the step its shard's number in that sequence; None in a graph of
        an earlier version, too.
    """

    initializer: tf.Operation
    files: tf.Tensor
    saver_def: bytes
    begun: tf.Tensor | None = None
    last_shard: tf.Tensor | None = None
    shards: tf.Tensor | None = None


@dataclass(frozen=True)
class PredictOps:
    """Evaluation-mode predictions and where they can be fed; nothing here runs unless fetched.

    Attributes:
      predictions: float32 [B, C] of the current batch, or of what is fed.
      input_batch_raw: float [B, D] or [B, T, D], dequantised, zero past num_frames; feeding it (and
        num_frames) cuts off the input.
      input_batch: the same after the transform that the model declares.
      num_frames: int32 [B].
      labels, video_ids, label_weights: as in the batch, where the workload has them.
    """

    predictions: tf.Tensor
    input_batch_raw: tf.Tensor | None = None
    input_batch: tf.Tensor | None = None
    num_frames: tf.Tensor | None = None
    labels: tf.Tensor | None = None
    video_ids: tf.Tensor | None = None
    label_weights: tf.Tensor | None = None


@dataclass(frozen=True)
class TrainOps:
    """One training step.

    Attributes:
      train_op: applies the gradients, runs the update ops, moves the averages, counts the step.
      global_step: int64 variable's tensor. Fetching it beside train_op reads an undefined moment.
      step: int64 scalar, the global step read after train_op: fetching it runs the step.
      learning_rate: float32 scalar of this step.
      label_loss, regularization_loss, total_loss: float32 scalars; total = label + penalty * regularization.
      examples: int64 scalar, examples of this step over all towers.
      gradient_norms: float32 [V] before clipping, in the order of `gradient_variables`.
      gradient_variables: names of the V variables.
      bad_tower: int64 scalar, the first tower whose gradients are not finite; -1 for none, and where the
        towers depend on each other.
      predictions: [B, ...] training-mode predictions of the step, all towers.
      reports: what the modeler offers to callbacks, reduced over the towers.
      summary_op: histograms of gradients and weights and scalars, of the same step when fetched with it.
      predict: the evaluation-mode path beside the towers.
      input: the input side.
      averages: (variable's name, its average's name) pairs where moving averages are kept.
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
      global_step: int64, of the restored checkpoint.
      label_loss: scalar, or None where the batch has no labels (inference).
      examples: int64 scalar, examples of this step.
      reports: what the modeler offers, reduced over the towers.
      summary_op: the loss of the step for TensorBoard; None where there is none.
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
