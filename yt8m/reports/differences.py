"""Differences between runs: in their settings (config, data, versions of the code) and in their figures."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from yt8m import options
from yt8m.config import run_dir
from yt8m.eval_util.eval_samples import EvalSamples
from yt8m.eval_util.metrics import (
    NOT_DEFINED,
    Description,
    RankedEntries,
    ScoredBatch,
    gap_first,
    metrics,
    why_undefined,
)
from yt8m.eval_util.resampling import Interval, resample
from yt8m.eval_util.videos import Videos
from yt8m.reports.loading import FEWEST_VIDEOS, Run, config_of, difference_interval, figure, same_videos

MISSING = "—"


class Setting(NamedTuple):
    """A setting in which runs differ: its kind (such as `config`), its name, and its value in each run.

    The value is MISSING for a run that does not have the setting.
    """

    kind: str
    name: str
    values: list[str]


class Difference(NamedTuple):
    """The difference between a figure of another run and that of the first run.

    Attributes:
      bounds: the 95 % interval of `difference`; None if it is not known.
    """

    run: str
    figure: str
    values: tuple[str, str]
    difference: str
    bounds: Interval | None
    verdict: str


def settings(runs: Sequence[Run]) -> list[Setting]:
    """The settings that are not the same in all runs: of the evaluation, of the data, of the config, and versions.

    A run that has no setting of a kind is not compared by this kind: a run without its config, for example, does not
    differ from the others in each option of theirs.
    """
    settings_of_runs = [dict(_settings(run)) for run in runs]
    names = list(dict.fromkeys(name for settings_of_run in settings_of_runs for name in settings_of_run))
    kinds = [{kind for kind, _ in settings_of_run} for settings_of_run in settings_of_runs]
    differing = []
    for kind, name in names:
        values = [settings_of_run.get((kind, name), MISSING) for settings_of_run in settings_of_runs]
        if len({value for value, kinds_of_run in zip(values, kinds, strict=True) if kind in kinds_of_run}) > 1:
            differing.append(Setting(kind, name, values))
    order = [kind for kind, _ in names]
    return sorted(differing, key=lambda setting: order.index(setting.kind))


def _settings(run: Run) -> Iterator[tuple[tuple[str, str], str]]:
    """Yields ((kind, name), value) of each setting of the run."""
    saved_figures = run.samples.figures
    yield ("model", "model"), str(saved_figures["model"])
    yield ("model", "step"), f"{saved_figures['global_step']:,}"
    yield ("evaluation", "videos"), f"{saved_figures['num_examples']:,}"
    yield ("evaluation", "classes"), f"{run.samples.num_classes:,}"
    hash_of_videos = int(np.bitwise_xor.reduce(run.samples.videos.keys)) & 0xFFFF_FFFF
    yield ("evaluation", "hash of the sampled videos"), f"{hash_of_videos:08x}"
    config = config_of(run)
    yield ("training", run_dir.CONFIG), "was read" if config else "is missing, so its settings are not compared"
    values = options.flat(dataclasses.asdict(config) if config else {})
    for name, value in values.items():
        if run_dir.is_compared(name):
            kind = "data" if name.startswith("data.") else "config"
            yield (kind, run_dir.flag_at(name)), run_dir.show_option(values, value)
    if config:
        yield ("data", "hash of the names of the classes"), _hash_of_names(run)
    for name, value in saved_figures.get("versions", {}).items():
        yield ("version at evaluation", name), str(value)
    for name, value in run_dir.written_versions(run.training.folder).items():
        yield ("version at training", name), str(value)


def _hash_of_names(run: Run) -> str:
    """A hash of the class names in the run's folder, 8 hexadecimal digits; "YouTube-8M's" if the folder has none."""
    names = run_dir.own_names(run.training.folder, run.samples.num_classes).names
    return hashlib.blake2b("\n".join(names).encode(), digest_size=4).hexdigest() if names else "YouTube-8M's"


# A bound this close to 0 counts as 0: `interval` computes bounds with sines, whose rounding moves a bound by less.
_ROUNDING = 1e-9


def differing_figures(first: Run, other: Run) -> list[Difference]:
    """The differences between the figures that both runs have, GAP first.

    If the runs were evaluated on different videos, these have no verdict but say so; the differences on the common
    videos follow.
    """
    differences = _all_differences(first, other)
    if same_videos(first, other):
        return differences
    common = _find_common_videos(first, other)
    differences = [
        each if MISSING in each.values else each._replace(verdict=common.why, difference=MISSING)
        for each in differences
    ]
    if common.first is None or common.other is None:
        return differences
    count = len(common.first.samples.videos)
    of_common = [each for each in _all_differences(common.first, common.other) if MISSING not in each.values]
    return differences + [each._replace(figure=f"{each.figure} of the {count:,} common videos") for each in of_common]


def _all_differences(first: Run, other: Run) -> list[Difference]:
    """The differences between the figures that both runs have, each with its verdict."""
    return [
        difference
        for metric in gap_first(other.samples.descriptions())
        if (difference := _difference(first, other, metric)) is not None
    ]


def _difference(first: Run, other: Run, metric: Description) -> Difference | None:
    """The difference between the runs by one metric; None if a run does not have it.

    A value that says nothing about its run is MISSING, and the verdict is the reason.
    """
    first_value, other_value = figure(first, metric.key), figure(other, metric.key)
    reasons = [
        why_undefined(metric.key, value, bool(run.samples.figures["classes"]))
        for run, value in ((first, first_value), (other, other_value))
    ]
    if NOT_DEFINED in reasons or any(metric.key not in run.samples.figures for run in (first, other)):
        return None
    if any(reasons):
        texts = [
            MISSING if why else metric.text(v, 4) for why, v in zip(reasons, (first_value, other_value), strict=True)
        ]
        return Difference(
            other.name, metric.name, (texts[0], texts[1]), MISSING, None, _verdict_of(reasons, first, other)
        )
    bounds = _bounds(first, other, metric.key)
    difference = other_value - first_value
    better_run = other if (difference > 0) == metric.higher_is_better else first
    if not difference:
        verdict = "the same"
    elif bounds is None:
        verdict = f"{better_run.name} is better, perhaps by chance"
    elif bounds.low <= _ROUNDING and bounds.high >= -_ROUNDING:
        verdict = "may be chance"
    else:
        verdict = f"{better_run.name} is better"
    values = metric.text(first_value, 4), metric.text(other_value, 4)
    return Difference(other.name, metric.name, values, f"{difference:+.4f}", bounds, verdict)


def _verdict_of(reasons: Sequence[str], first: Run, other: Run) -> str:
    """Why runs are not compared, in place of a verdict; with the name of the run, if it is one of them."""
    if reasons[0] == reasons[1]:
        return reasons[0]
    return "; ".join(f"{run.name}: {why}" for run, why in zip((first, other), reasons, strict=True) if why)


def _bounds(first: Run, other: Run, key: str) -> Interval | None:
    """The 95 % interval of the difference between the runs by the metric `key`.

    The values of both runs on the same resampled videos are compared. None if a run has no resampled values of this
    metric, if the two runs did not sample the same videos, or if they sampled fewer than FEWEST_VIDEOS.
    """
    if key not in first.resampled or key not in other.resampled or not same_videos(first, other):
        return None
    return difference_interval(first, other, key) if len(first.samples.videos) >= FEWEST_VIDEOS else None


class CommonVideos(NamedTuple):
    """What two runs that were evaluated on different videos have in common.

    Attributes:
      first, other: both runs with only the common videos that have the same labels in both; None if there are none.
    """

    why: str
    first: Run | None
    other: Run | None


def _find_common_videos(first: Run, other: Run) -> CommonVideos:
    """The common videos of two runs that did not sample the same videos with the same labels."""
    samples, other_samples = first.samples, other.samples
    if samples.num_classes != other_samples.num_classes:
        why = f"not comparable: {samples.num_classes:,} classes and {other_samples.num_classes:,}"
        return CommonVideos(why, None, None)
    keys, rows, other_rows = np.intersect1d(samples.videos.keys, other_samples.videos.keys, return_indices=True)
    videos, other_videos = samples.videos.take(rows), other_samples.videos.take(other_rows)
    why = f"not comparable: {samples.seen:,} videos and {other_samples.seen:,}, {len(keys):,} of them common"
    if not len(keys):
        return CommonVideos(why, None, None)
    alike = [np.array_equal(*pair) for pair in zip(_labels(videos), _labels(other_videos), strict=True)]
    if changed := alike.count(False):
        why += f", {changed:,} of these with other labels"
    chosen = np.flatnonzero(alike)
    if not len(chosen):
        return CommonVideos(why, None, None)
    return CommonVideos(why, _of_videos(first, videos.take(chosen)), _of_videos(other, other_videos.take(chosen)))


def _labels(videos: Videos) -> list[np.ndarray[Any, Any]]:
    """The labels of each video."""
    return np.split(videos.labels, np.cumsum(videos.num_labels)[:-1])


def _of_videos(run: Run, videos: Videos) -> Run:
    """The run as if it had been evaluated on these of its videos, with the metrics that follow from a sample."""
    samples = run.samples
    figures = _figures(videos, samples)
    resamples = len(next(iter(run.resampled.values())))
    resampled = resample(videos, samples.num_classes, resamples, run.seed)
    common_samples = EvalSamples(
        {**samples.figures, **figures, **({} if len(videos.labels) else {"classes": []})},
        videos,
        samples.num_classes,
        len(videos),
        samples.points,
    )
    shared = {key: values for key, values in resampled.figures.items() if key in run.resampled and key in figures}
    return run._replace(
        samples=common_samples, resampled=shared, class_aps=resampled.class_aps, excess=resampled.excess
    )


def _figures(videos: Videos, samples: EvalSamples) -> Mapping[str, float | None]:
    """{key: value on the videos} of the metrics that the run has; None if one is not defined, or cannot be computed."""
    columns = videos.columns(samples.num_classes)
    batch = ScoredBatch(columns, videos.perr, videos.losses)
    entries = columns.entries(columns.scores.shape[1])
    ranked = RankedEntries(entries, columns.label_counts, len(videos))
    values = {metric.key: metric.create(batch).compute(ranked) for metric in metrics.all() if not metric.is_detail}
    finite_values = {key: float(value) for key, value in values.items() if value is not None and np.isfinite(value)}
    return {each.key: finite_values.get(each.key) for each in samples.descriptions()}
