"""What the engine asks of a workload: an inputter and a modeler. Nothing here knows of videos."""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from yt8m.graph.ops import PredictOps, Report
from yt8m.types import ModelOutput

if TYPE_CHECKING:
    import tensorflow.compat.v1 as tf


class Inputter(Protocol):
    """Files and how they become batches.

    Attributes:
      batch_size: examples per tower and step.
    """

    batch_size: int

    def files(self) -> Sequence[str]:
        """The files that this run reads; fed to the graph, never part of it.

        Raises:
          UsageError: nothing matches.
        """

    def dataset(self, files: tf.Tensor, batch_size: int) -> tf.data.Dataset:
        """Batches (any nest of tensors, examples first) of `batch_size` from the string vector `files`."""


class Evaluator(Protocol):
    """Turns the completed reports of steps into figures, with names as they are printed."""

    def accumulate(self, reports: Mapping[str, np.ndarray], loss: float | None) -> dict[str, float]:
        """Adds one step; returns the figures of that step alone."""

    def get(self) -> dict[str, Any]:
        """The figures of all steps so far."""

    def clear(self) -> None:
        """Forgets all steps."""


class MeanLoss:
    """The evaluator of a workload that reports nothing: the mean loss over steps."""

    def __init__(self) -> None:
        self.clear()

    def accumulate(self, reports: Mapping[str, np.ndarray], loss: float | None) -> dict[str, float]:
        """Adds one step; there are no figures beside the loss."""
        self._losses += [] if loss is None else [loss]
        return {}

    def get(self) -> dict[str, Any]:
        """`Avg_Loss` over the steps that had one."""
        return {"Avg_Loss": float(np.mean(self._losses))} if self._losses else {}

    def clear(self) -> None:
        """Forgets all steps."""
        self._losses: list[float] = []


class Modeler(abc.ABC):
    """A model and its loss. Only `build` has to be written."""

    @abc.abstractmethod
    def build(self, batch: Any, is_training: bool) -> ModelOutput:
        """The model on one tower's share of a batch.

        `loss` is the mean over the share; it may be None where the batch has no labels and
        `is_training` is False. Called once a tower, on its device, with shared variables.
        """

    def reports(self, batch: Any, output: ModelOutput, mode: str) -> dict[str, Report]:
        """What this share offers to callbacks; `mode` is train, eval or infer."""
        return {}

    def completed(self, reports: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        """The fetched reports of a step as the evaluator and the consumers of inference take them.

        Called on the host, in evaluation and inference while the next step runs.
        """
        return reports

    def evaluator(self) -> Evaluator:
        """A fresh evaluator for the reports of this modeler."""
        return MeanLoss()

    def predict(self, batch: Any) -> PredictOps:
        """Evaluation-mode predictions of a whole batch, with the feed points that the workload has."""
        return PredictOps(predictions=self.build(batch, is_training=False).predictions)

    def restore(self, session: tf.Session) -> None:  # noqa: B027 - most have nothing to add
        """Called once the checkpoint has been restored, for a modeler that brings weights of its own."""
