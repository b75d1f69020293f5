"""Metrics of multi-label classification, in NumPy alone: Hit@1, PERR, average precision, mAP, GAP."""

from __future__ import annotations

from yt8m.eval_util.average_precision import AveragePrecisionCalculator, MeanAveragePrecisionCalculator
from yt8m.eval_util.evaluation_metrics import EvaluationMetrics
from yt8m.eval_util.metrics import calculate_gap, calculate_hit_at_one, calculate_precision_at_equal_recall_rate

__all__ = ["AveragePrecisionCalculator", "EvaluationMetrics", "MeanAveragePrecisionCalculator"]
__all__ += ["calculate_gap", "calculate_hit_at_one", "calculate_precision_at_equal_recall_rate"]
