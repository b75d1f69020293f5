"""Judges requirements of --require by the intervals of the metrics of an evaluation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from yt8m.eval_util.arrays import Ints64
from yt8m.eval_util.eval_samples import EvalSamples
from yt8m.eval_util.metrics import THIRDS, Gap, MeanAveragePrecision, Metric, thirds
from yt8m.eval_util.requirements import Requirement, Verdict
from yt8m.eval_util.resampling import Interval, interval
from yt8m.reports.loading import (
    Run,
    evaluated_run,
    figure,
    interval_if_certain,
    interval_of,
    interval_of_mean_ap,
    shrink_of,
)

RESAMPLES, SEED = 200, 0  # the defaults of `yt8m report`, so that verdicts and the page have the same intervals


def judge(
    requirements: Sequence[Requirement],
    folder: str,
    samples: EvalSamples | None,
    metric_classes: Sequence[type[Metric]],
    class_counts: Ints64 | None,
) -> list[Verdict]:
    """Gives a verdict on each requirement.

    If no video was sampled, there is no interval to judge by, so the verdicts have neither value nor interval.

    Args:
      samples: the sampled videos of the evaluation; None if there are none.
      class_counts: [C], number of training videos of each class; None if it is not known.
    """
    if samples is None:
        return [Verdict(requirement, None, None, None) for requirement in requirements]
    resampled_run = evaluated_run(folder, samples, RESAMPLES, SEED, metric_classes, class_counts)
    verdicts = []
    for requirement in requirements:
        value = figure(resampled_run, requirement.metric)
        bounds = _interval_of_metric(resampled_run, requirement.metric, class_counts) if value is not None else None
        verdicts.append(Verdict(requirement, value, *(bounds or (None, None))))
    return verdicts


def _interval_of_metric(run: Run, key: str, class_counts: Ints64 | None) -> Interval | None:
    """The 95 % interval of the metric with the key `key`.

    None if the metric was not resampled, or if there are too few videos or labels.

    `class_counts` divides the classes into head, middle and tail, for the metrics of these thirds.
    """
    if key not in run.resampled or np.isnan(run.resampled[key]).all():
        return None
    for third, classes in zip(THIRDS, thirds(class_counts), strict=False):
        if key == f"{Gap.key}_{third}":
            bounds = interval(figure(run, key), run.resampled[key], shrink_of(run))
            return interval_if_certain(bounds, len(run.samples.videos))
        if key == f"{MeanAveragePrecision.key}_{third}":
            labels = {row["class"]: row["positives"] for row in run.samples.figures["classes"]}
            labelled = [number for number in classes.tolist() if number in labels]
            counts = np.array([labels[number] for number in labelled])
            return interval_of_mean_ap(run, figure(run, key), run.resampled[key], run.excess[labelled], counts)
    return interval_of(run, key)
