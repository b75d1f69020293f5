"""The video workload's modeler in training: changes the features, and learns from a teacher."""

from __future__ import annotations

from typing import Any

from yt8m.config_training import AugmentConfig
from yt8m.graph.augment import augment
from yt8m.graph.distill import distilled
from yt8m.graph.modeler import VideoModeler
from yt8m.graph.teachers import Teacher
from yt8m.lazy import tf
from yt8m.types import Batch, ModelOutput


class TrainingModeler(VideoModeler):
    """`VideoModeler`, with augmentation and distillation on the towers that train.

    Evaluation, predictions and exports are those of `VideoModeler`. The teacher sees the features as they
    were read.

    Args:
      *arguments: of `VideoModeler`.
      augmentation: what is done to the features.
      teacher: gives the soft targets; None for none.
      distill_weight: the teacher's share in the loss.
    """

    def __init__(
        self, *arguments: Any, augmentation: AugmentConfig, teacher: Teacher | None, distill_weight: float
    ) -> None:
        super().__init__(*arguments)
        self._augmentation, self._teacher, self._weight = augmentation, teacher, distill_weight

    def build(self, batch: Batch, is_training: bool) -> ModelOutput:
        """As `VideoModeler.build`; in training the loss is that of `distilled`."""
        if not is_training:
            return super().build(batch, is_training)
        output = super().build(augment(batch, self._augmentation), is_training)
        if self._teacher is None:
            return output
        return distilled(output, self._teacher.probabilities(batch), self._weight)

    def restore(self, session: tf.Session) -> None:
        """Reads the teacher's weights."""
        if self._teacher is not None:
            self._teacher.restore(session)
