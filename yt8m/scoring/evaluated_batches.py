"""The metrics of a scorer on batches with labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from yt8m.config import data_fit
from yt8m.scoring.model_input import Videos
from yt8m.scoring.scorer import EvaluationSettings, Scorer
from yt8m.video.modeler import VideoEvaluator, VideoModeler


class Evaluation:
    """The evaluation of a scorer on batches with labels.

    Args:
      scorer: the model.
      settings: how batches are evaluated.
      metric_classes: the metrics; None for the built-in ones.

    Attributes:
      evaluator: has the metrics.
      examples: number of examples so far.
    """

    def __init__(
        self, scorer: Scorer, settings: EvaluationSettings, metric_classes: Sequence[Any] | None = None
    ) -> None:
        self._scorer, self._settings, self.examples = scorer, settings, 0
        modeler = VideoModeler(None, None, scorer.num_classes, settings.top_k)
        modeler.metric_classes = metric_classes
        modeler.class_counts = data_fit.training_counts(scorer.shown_names, scorer.training_data)
        self.evaluator = VideoEvaluator(modeler)

    def add(self, videos: Videos, rows: int = 0) -> None:
        """Evaluates a batch; raises like `Scorer.evaluated`."""
        step = self._scorer.evaluated(videos, rows, self._settings)
        self.evaluator.accumulate(step.reports, step.loss)
        self.examples += step.examples
