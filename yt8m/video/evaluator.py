"""The video workload's evaluator: from fetched reports to figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from yt8m.eval_util import EvaluationMetrics
from yt8m.eval_util.metrics import Loss, Metric
from yt8m.eval_util.segments import Pairs
from yt8m.eval_util.videos import VideoSample
from yt8m.runner import metric_files

_COLUMNS = ("scores", "classes", "hits", "num_labels", "label_counts", "perr")


class VideoEvaluator:
    """`EvaluationMetrics` as an evaluator of the engine.

    Args:
      num_classes: C.
      top_k: classes of each video that count.
      sample: gets some of the videos; None if none are to be kept.
      metric_classes: by default the built-in ones.
    """

    def __init__(
        self,
        num_classes: int,
        top_k: int,
        sample: VideoSample | None = None,
        metric_classes: Sequence[type[Metric]] | None = None,
    ) -> None:
        self.sample = sample
        self.metrics = EvaluationMetrics(num_classes, top_k, metric_classes=metric_classes)

    def accumulate(self, reports: Mapping[str, np.ndarray], loss: float | None) -> dict[str, float]:
        """Adds one step; returns the figures of that step alone, by the names of their metrics."""
        if "pair_scores" in reports:
            pairs = Pairs(*(reports[f"pair_{name}"] for name in Pairs._fields))
            figures = self.metrics.accumulate_pairs(pairs, loss)
        else:
            figures = self.metrics.accumulate_top_k(**{name: reports[name] for name in _COLUMNS}, loss=loss)
        if self.sample is not None and "labels" in reports:
            self.sample.add(reports)
        # The engine puts the loss into the line itself.
        shown = (metric for metric in self.metrics.metric_classes if metric.key in figures and metric is not Loss)
        return {metric.name: figures[metric.key] for metric in shown}

    def merge(self, other: VideoEvaluator) -> None:
        """Adds all steps of `other`, which another process may have accumulated."""
        self.metrics.merge(other.metrics)
        if self.sample is not None and other.sample is not None:
            self.sample.merge(other.sample)

    def get(self) -> dict[str, Any]:
        """All figures so far, named as by `EvaluationMetrics.get`.

        A precision-recall curve is drawn from `threshold_counts`.
        """
        return self.metrics.get() | {"threshold_counts": self.metrics.threshold_counts(metric_files.NUM_THRESHOLDS)}

    def clear(self) -> None:
        """Forgets all steps."""
        self.metrics.clear()
        if self.sample is not None:
            self.sample.clear()
