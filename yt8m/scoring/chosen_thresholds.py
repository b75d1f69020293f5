"""The thresholds that an evaluation chooses: those with the best F1, or those that guarantee a precision."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from yt8m.config.programs import EvalConfig
from yt8m.eval_util.guaranteed_precision import PARTS, ForAll, PrecisionCalibration, least_labels
from yt8m.records.thresholds import BELOW_TARGET, CLASS, TOO_FEW_LABELS, OperatingPoints, PrecisionTarget
from yt8m.video.modeler import VideoEvaluator


class GuaranteeSummary(NamedTuple):
    """What the thresholds of an evaluation guarantee, as report.json says it.

    Attributes:
      target: the precision on new videos, and the confidence in it.
      precision_of: `class` if it is that of each class, `all` if it is that of all tags.
      testing_videos: number of videos that tested the thresholds.
      classes: number of classes with a threshold of their own.
      too_few_labels, below_target: number of classes that abstain, by the reason.
      labels_needed: number of labels, of all evaluated videos, without which a class has to abstain.
      for_all: the threshold for all classes.
    """

    target: PrecisionTarget
    precision_of: str
    testing_videos: int
    classes: int
    too_few_labels: int
    below_target: int
    labels_needed: int
    for_all: ForAll

    def as_json(self) -> dict[str, Any]:
        """The summary for report.json; `threshold_for_all` is None if there is none."""
        threshold, videos, predictions = self.for_all
        return {
            "target_precision": self.target.precision,
            "confidence": self.target.confidence,
            **{name: value for name, value in self._asdict().items() if name not in ("target", "for_all")},
            "threshold_for_all": threshold if np.isfinite(threshold) else None,
            "videos_for_all": videos,
            "predictions_for_all": predictions,
        }

    def log(self) -> None:
        """Says how many classes have a threshold, and why the others abstain."""
        logging.info(
            "%s: %d classes have a threshold; %d abstain because they have too few labels (at least %d are needed), "
            "and %d because no threshold is sure to reach it",
            self.target,
            self.classes,
            self.too_few_labels,
            self.labels_needed,
            self.below_target,
        )
        threshold, videos, predictions = self.for_all
        if np.isfinite(threshold):
            tested = f"{threshold:.4g}, tested by {predictions} predictions of {videos} videos"
        else:
            tested = "none is sure to reach it"
        logging.info("one threshold for all tags together: %s", tested)


class ChosenThresholds(NamedTuple):
    """The thresholds of the classes; `summary` is None for those with the best F1."""

    points: OperatingPoints
    summary: GuaranteeSummary | None = None


def choose(evaluator: VideoEvaluator, config: EvalConfig) -> ChosenThresholds | None:
    """The thresholds that `config` asks for; None if it asks for no report."""
    if evaluator.sample is None:
        return None
    if evaluator.calibration is None or config.target is None:
        return ChosenThresholds(evaluator.metrics.operating_points(config.min_positives))
    return _guaranteed(evaluator.calibration, config.target, config.precision_of)


def _guaranteed(calibration: PrecisionCalibration, target: PrecisionTarget, precision_of: str) -> ChosenThresholds:
    points, for_all = calibration.of_classes(target), calibration.for_all(target)
    bases = Counter(points.bases())
    summary = GuaranteeSummary(
        target,
        precision_of,
        calibration.testing_videos,
        bases[CLASS],
        bases[TOO_FEW_LABELS],
        bases[BELOW_TARGET],
        # Of so many labels, the testing part is expected to have enough.
        -(-least_labels(target) * PARTS // (PARTS - 1)),
        for_all,
    )
    summary.log()
    return ChosenThresholds(calibration.for_each(for_all, target) if precision_of == "all" else points, summary)
