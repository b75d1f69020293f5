"""What differs between runs: their configs, their data, the versions of the code, and their figures."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from yt8m import options
from yt8m.config import run_dir
from yt8m.eval_util.metrics import Description, gap_first
from yt8m.eval_util.resampling import Interval
from yt8m.options import shown
from yt8m.reports.loading import FEWEST, Run, config_of, difference_interval, figure, same_videos

MISSING = "—"


class Setting(NamedTuple):
    """A setting in which runs differ: what it belongs to, its name, and its value in each run."""

    kind: str
    name: str
    values: list[str]


class Difference(NamedTuple):
    """The difference of a figure from the first run.

    Attributes:
      run: name of the other run.
      figure: name of the figure.
      values: the figure of the first run, and of the other.
      difference: the second minus the first.
      bounds: the 95 % interval of `difference`; None if it is not known.
      verdict: which run is better, or that it may be chance.
    """

    run: str
    figure: str
    values: tuple[str, str]
    difference: str
    bounds: Interval | None
    verdict: str


def settings(runs: Sequence[Run]) -> list[Setting]:
    """The settings that are not the same in all runs: of the evaluation and its data, the config, the versions.

    A run without any setting of a kind, such as one whose config is not found, is not compared by that kind.
    """
    settings_of_runs = [dict(_settings(run)) for run in runs]
    names = list(dict.fromkeys(name for settings_of_run in settings_of_runs for name in settings_of_run))
    kinds = [{kind for kind, _ in settings_of_run} for settings_of_run in settings_of_runs]
    differing = []
    for kind, name in names:
        values = [settings_of_run.get((kind, name), MISSING) for settings_of_run in settings_of_runs]
        if len({value for value, having in zip(values, kinds, strict=True) if kind in having}) > 1:
            differing.append(Setting(kind, name, values))
    order = [kind for kind, _ in names]
    return sorted(differing, key=lambda settings_of_run: order.index(settings_of_run.kind))


def _settings(run: Run) -> Iterator[tuple[tuple[str, str], str]]:
    """((kind, name), value) of everything that is known of the run."""
    saved_figures = run.samples.figures
    yield ("model", "model"), str(saved_figures["model"])
    yield ("model", "step"), f"{saved_figures['global_step']:,}"
    yield ("evaluation", "videos"), f"{saved_figures['num_examples']:,}"
    yield ("evaluation", "classes"), f"{run.samples.num_classes:,}"
    hash_of_videos = int(np.bitwise_xor.reduce(run.samples.videos.keys)) & 0xFFFF_FFFF
    yield ("evaluation", "hash of the sampled videos"), f"{hash_of_videos:08x}"
    config = config_of(run)
    yield ("training", run_dir.CONFIG), "was read" if config else "is missing, so its settings are not compared"
    for name, value in options.flat(dataclasses.asdict(config) if config else {}).items():
        if name not in run_dir.NOT_COMPARED:
            yield ("data" if name.startswith("data.") else "config", run_dir.flag_at(name)), shown(value)
    if config:
        yield ("data", "hash of the names of the classes"), _hash_of_names(run)
    for name, value in saved_figures.get("versions", {}).items():
        yield ("version at evaluation", name), str(value)
    for name, value in run_dir.written_versions(run.training.folder).items():
        yield ("version at training", name), str(value)


def _hash_of_names(run: Run) -> str:
    """Eight digits that are the same for the same names; those of YouTube-8M if the run has none of its own."""
    names = run_dir.own_names(run.training.folder, run.samples.num_classes).names
    return hashlib.blake2b("\n".join(names).encode(), digest_size=4).hexdigest() if names else "YouTube-8M's"


_ROUNDING = 1e-9  # a bound of 0 may differ from 0 by the rounding of sines


def figures(first: Run, other: Run) -> list[Difference]:
    """The differences of all figures that both runs have, GAP first."""
    return [
        difference
        for metric in gap_first(other.samples.descriptions())
        for difference in _difference(first, other, metric)
    ]


def _difference(first: Run, other: Run, metric: Description) -> Iterator[Difference]:
    new, old = figure(other, metric.key), figure(first, metric.key)
    if new is None or old is None:
        return
    bounds = _bounds(first, other, metric.key)
    difference = new - old
    better = other if (difference > 0) == metric.higher_is_better else first
    if not difference:
        verdict = "the same"
    elif bounds is None:
        verdict = f"{better.name}; whether by chance is not known"
    elif bounds.low <= _ROUNDING and bounds.high >= -_ROUNDING:
        verdict = "may be chance"
    else:
        verdict = f"{better.name} is better"
    yield Difference(
        other.name, metric.name, (metric.text(old, 4), metric.text(new, 4)), f"{difference:+.4f}", bounds, verdict
    )


def _bounds(first: Run, other: Run, key: str) -> Interval | None:
    """The interval of the difference, from the same resamples of the same videos.

    None if the videos are not the same, or too few.
    """
    if key not in first.resampled or key not in other.resampled or not same_videos(first, other):
        return None
    return difference_interval(first, other, key) if len(first.samples.videos) >= FEWEST else None
