"""Judges the requirements of an evaluation (`yt8m eval --require`) by the intervals that the report has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from yt8m.eval_util.arrays import Ints64
from yt8m.eval_util.metrics import Gap, MeanAveragePrecision, Metric
from yt8m.eval_util.ranked_entries import THIRDS, thirds
from yt8m.eval_util.requirements import Requirement, Verdict
from yt8m.eval_util.resampling import Interval, interval
from yt8m.reports.eval_samples import EvalSamples
from yt8m.reports.loading import Run, certain_enough, evaluated_run, figure, interval_of, interval_of_mean_ap, shrink_of

RESAMPLES, SEED = 200, 0  # those of the report by default, so that both have the same intervals


def judge(
    folder: str,
    requirements: Sequence[Requirement],
    samples: EvalSamples,
    metric_classes: Sequence[type[Metric]],
    class_counts: Ints64 | None,
) -> list[Verdict]:
    """The verdict on each requirement.

    Args:
      folder: path of the folder with the evaluation.
      requirements: name metrics by their keys.
      samples: the metrics and the sampled videos of the evaluation.
      metric_classes: the metrics of the evaluation.
      class_counts: [C], number of training videos of each class; None if it is not labelled.
    """
    run = evaluated_run(folder, samples, RESAMPLES, SEED, metric_classes, class_counts)
    verdicts = []
    for requirement in requirements:
        value = figure(run, requirement.metric)
        bounds = _interval(run, requirement.metric, class_counts) if value is not None else None
        verdicts.append(Verdict(requirement, value, *(bounds or (None, None))))
    return verdicts


def _interval(run: Run, key: str, class_counts: Ints64 | None) -> Interval | None:
    """The 95 % interval of a metric; None if there is none, or if the videos say too little."""
    if key not in run.resampled or np.isnan(run.resampled[key]).all():
        return None
    for third, classes in zip(THIRDS, thirds(class_counts), strict=False):
        if key == f"{Gap.key}_{third}":
            bounds = interval(figure(run, key), run.resampled[key], shrink_of(run))
            return certain_enough(bounds, len(run.samples.videos))
        if key == f"{MeanAveragePrecision.key}_{third}":
            labels = {row["class"]: row["positives"] for row in run.samples.figures["classes"]}
            labelled = [number for number in classes.tolist() if number in labels]
            counts = np.array([labels[number] for number in labelled])
            return interval_of_mean_ap(run, figure(run, key), run.resampled[key], run.excess[labelled], counts)
    return interval_of(run, key)
