"""The video workload's evaluator: from fetched reports to figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from yt8m.eval_util import EvaluationMetrics
from yt8m.eval_util.segments import Pairs, RatedPairs, columns_of_pairs
from yt8m.eval_util.videos import VideoSample
from yt8m.runner import metric_files


class VideoEvaluator:
    """`EvaluationMetrics`, and MAP@n of rated pairs, behind the engine's evaluator.

    Attributes:
      sample: some of the videos, where those are to be kept.
    """

    def __init__(self, num_classes: int, top_k: int, sample: VideoSample | None = None) -> None:
        self.sample = sample
        self.metrics = EvaluationMetrics(num_classes, top_k)
        self.pairs = RatedPairs(num_classes)
        self._is_rated = False

    def accumulate(self, reports: Mapping[str, np.ndarray], loss: float | None) -> dict[str, float]:
        """Adds one step; returns Hit@1, PERR and (one step alone) GAP."""
        figures = self._accumulate(reports, loss)
        if self.sample is not None and "labels" in reports:
            self.sample.add(reports)
        return {"Hit@1": figures["hit_at_one"], "PERR": figures["perr"], "GAP": figures["gap"]}

    def _accumulate(self, reports: Mapping[str, np.ndarray], loss: float | None) -> dict[str, float]:
        if "pair_scores" not in reports:
            names = ("scores", "classes", "hits", "num_labels", "label_counts", "perr")
            return self.metrics.accumulate_top_k(**{name: reports[name] for name in names}, loss=loss)
        self._is_rated = True
        pairs = Pairs(*(reports[f"pair_{name}"] for name in Pairs._fields))
        self.pairs.accumulate_pairs(pairs.classes, pairs.scores, pairs.hits)
        columns, perr = columns_of_pairs(pairs, self.metrics.top_k, self.metrics.num_class)
        return self.metrics.accumulate_top_k(*columns, perr=perr, loss=loss)

    def merge(self, other: VideoEvaluator) -> None:
        """Adds all steps of `other`, which another process may have accumulated."""
        self.metrics.merge(other.metrics)
        self.pairs.merge(other.pairs)
        self._is_rated = self._is_rated or other._is_rated
        if self.sample is not None and other.sample is not None:
            self.sample.merge(other.sample)

    def get(self) -> dict[str, Any]:
        """All figures so far, named as by `EvaluationMetrics.get`; `map_at_n` where pairs were rated.

        `threshold_counts` is what a precision-recall curve is drawn from.
        """
        rated = {"map_at_n": self.pairs.get().map} if self._is_rated else {}
        counts = self.metrics.threshold_counts(metric_files.NUM_THRESHOLDS)
        return self.metrics.get() | rated | {"threshold_counts": counts}

    def clear(self) -> None:
        """Forgets all steps."""
        self.metrics.clear()
        self.pairs.clear()
        if self.sample is not None:
            self.sample.clear()
