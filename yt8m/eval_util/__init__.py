"""Figures of multi-label classification, in NumPy alone: Hit@1, PERR, average precision, mAP, GAP."""

from __future__ import annotations

from yt8m.eval_util.average_precision_calculator import AveragePrecisionCalculator
from yt8m.eval_util.evaluation_metrics import EvaluationMetrics
from yt8m.eval_util.gap import calculate_gap
from yt8m.eval_util.hit_at_one import calculate_hit_at_one
from yt8m.eval_util.mean_average_precision_calculator import MeanAveragePrecisionCalculator
from yt8m.eval_util.perr import calculate_precision_at_equal_recall_rate

__all__ = [
    "AveragePrecisionCalculator",
    "EvaluationMetrics",
    "MeanAveragePrecisionCalculator",
    "calculate_gap",
    "calculate_hit_at_one",
    "calculate_precision_at_equal_recall_rate",
]
