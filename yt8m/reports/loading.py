"""Loads a run for the report (its evaluation and its curves), and computes confidence intervals of its metrics."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from yt8m import file_kinds, storage, terminal
from yt8m.config import run_dir
from yt8m.config.train_config import TrainConfig
from yt8m.errors import RunError, UsageError
from yt8m.eval_util import eval_samples
from yt8m.eval_util.arrays import Floats64, Ints64
from yt8m.eval_util.eval_samples import EvalSamples
from yt8m.eval_util.metrics import HitAtOne, Loss, MeanAveragePrecision, Metric, gap_first, metrics
from yt8m.eval_util.resampling import Interval, Resampled, interval, intervals, resample, wilson_interval
from yt8m.runs.opened_run import Lines, RunFiles

_NOT_METRICS = ("step", "examples")  # keys of the lines of metrics.jsonl that get no curve
# The colours of the runs in the charts; the ninth run gets the first colour again. Most colour-blind readers can tell
# them apart. Each has a contrast of at least 3 to 1 to white and to black (WCAG 2.2, 1.4.11).
COLOURS = ("#3b82f6", "#e26d0c", "#12a37f", "#a35cf0", "#e8476a", "#199bb4", "#b58a12", "#8b8fa3")


class Curve:
    """The curve of one metric over the training steps.

    Attributes:
      steps: float64 [P], ascending.
      values: float64 [P], finite.
    """

    def __init__(self, points: Mapping[int, float]) -> None:
        self.steps: Floats64 = np.array(sorted(points), np.float64)
        self.values: Floats64 = np.array([points[step] for step in sorted(points)], np.float64)

    def smoothed(self) -> Floats64:
        """The running mean, float64 [P], over a window of about P / 20 points, fewer at both ends."""
        width = max(1, len(self.values) // 20)
        kernel = np.ones(2 * (width // 2) + 1)
        sums, sizes = (np.convolve(array, kernel) for array in (self.values, np.ones(len(self.values))))
        return np.asarray(sums / sizes)[width // 2 :][: len(self.values)]


def curves_of(lines: Lines) -> dict[str, Curve]:
    """{name: curve} from lines of metrics.jsonl, in the order loss, metrics, speed, others.

    If a resumed run has logged a step twice, the later line counts.
    """
    points: dict[str, dict[int, float]] = {}
    for line in lines:
        for name, value in line.items():
            if name not in _NOT_METRICS and isinstance(value, int | float):
                points.setdefault(name, {})[int(line["step"])] = float(value)
    order = ["loss", *(metric.name for metric in gap_first(metrics.all()))]
    order.append("examples_per_second")
    names = sorted(points, key=lambda name: (order.index(name) if name in order else len(order), name))
    return {name: Curve(points[name]) for name in names}


class Run(NamedTuple):
    """One run of the report.

    Attributes:
      curves: {name: training curve}; empty if the run has none.
      validations: {name: curve of the validations during training}.
      evaluations: {name: curve of the evaluated checkpoints}.
      resampled: {key of the metric: its values on R bootstrap resamples of the videos, float64 [R]}; see `Resampled`.
      class_aps: float64 [min(R, 1000), C], corrected AP of each class on the resampled videos. AP of a class with few
        labels is too high; corrected AP is not.
      excess: float64 [C], AP minus corrected AP of each class over the sampled videos; nan for a class without a label.
    """

    name: str
    folder: str
    training: RunFiles
    colour: str
    samples: EvalSamples
    curves: Mapping[str, Curve]
    validations: Mapping[str, Curve]
    evaluations: Mapping[str, Curve]
    resampled: Mapping[str, Floats64]
    class_aps: Floats64
    excess: Floats64
    seed: int = 0


def load(folders: Sequence[str], resamples: int, seed: int) -> list[Run]:
    """The runs in these folders, in the same order."""
    paths = [folder.rstrip("/") or folder for folder in folders]
    for folder in paths:
        if not storage.is_dir(folder):
            raise UsageError(f"{folder}: {storage.why_no_folder(folder)}; name the folders of runs.")
        _refuse_no_run(folder)
        if paths.count(folder) > 1:
            raise UsageError(f"{folder} is named twice; name each run once.")
    evaluations = [eval_samples.read(folder) for folder in paths]
    arguments = zip(_short_names(paths), paths, itertools.cycle(COLOURS), evaluations, strict=False)
    total = resamples * len(paths)
    bar = iter(terminal.with_progress(range(total), total, "resamples"))  # one bar for all runs
    return [_load_run(*each, resamples, seed, lambda numbers: (next(bar) for _ in numbers)) for each in arguments]


def _refuse_no_run(folder: str) -> None:
    """Refuses a folder without an evaluation that an evaluation with --report cannot give one."""
    if storage.exists(eval_samples.path_in(folder)):
        return
    if (kind := storage.folder_kind(folder)) == file_kinds.EXPORT:
        raise UsageError(f"{folder} is {kind.description}, which has no report: name the run that it was made from.")
    if not run_dir.is_run(folder):
        raise UsageError(f"{run_dir.why_no_run(folder)}. Name the folders of evaluated runs.")


def _load_run(
    name: str,
    folder: str,
    colour: str,
    samples: EvalSamples,
    resamples: int,
    seed: int,
    with_progress: Callable[[Iterable[int]], Iterable[int]],
) -> Run:
    training = RunFiles(_find_training_folder(folder, str(samples.figures.get("checkpoint", ""))))
    evaluation = RunFiles(storage.join(folder, eval_samples.FOLDER))
    curves, validations = curves_of(training.training_lines), curves_of(training.validation_lines)
    evaluations = curves_of(evaluation.training_lines)
    resampled = _resample_sampled_videos(samples, resamples, seed, with_progress)
    return Run(name, folder, training, colour, samples, curves, validations, evaluations, *resampled, seed)


def config_of(run: Run) -> TrainConfig | None:
    """The config that the run was trained with; None if it is not found or cannot be read."""
    with contextlib.suppress(RunError, UsageError):
        return run.training.saved.config if run.training.saved else None
    return None


def _find_training_folder(folder: str, checkpoint: str) -> str:
    """The folder of the run whose evaluation is in `folder`; `folder` itself if no run is found.

    An evaluation with --eval_dir has only its results in `folder`. Then the run is in the folder of the checkpoint, or
    in the one above it if the checkpoint is in best/.
    """
    checkpoint_folder = os.path.dirname(checkpoint)
    for candidate in (folder, checkpoint_folder, os.path.dirname(checkpoint_folder)):
        with contextlib.suppress(RunError, UsageError, OSError):  # it may be in a bucket that this machine cannot read
            if candidate and run_dir.is_run(candidate):
                return candidate
    return folder


def evaluated_run(
    folder: str,
    samples: EvalSamples,
    resamples: int,
    seed: int,
    metric_classes: Sequence[type[Metric]],
    class_counts: Ints64 | None,
) -> Run:
    """A run with only its evaluation, to compute intervals; it has no name, no colour and no curves.

    Args:
      class_counts: [C], number of training videos of each class; None if it is not known.
    """

    def with_progress(numbers: Iterable[int]) -> Iterable[int]:
        return terminal.with_progress(numbers, resamples, "resamples")

    resampled = _resample_sampled_videos(samples, resamples, seed, with_progress, metric_classes, class_counts)
    return Run("", folder, RunFiles(folder), "", samples, {}, {}, {}, *resampled, seed)


def _resample_sampled_videos(
    samples: EvalSamples,
    resamples: int,
    seed: int,
    with_progress: Callable[[Iterable[int]], Iterable[int]],
    metric_classes: Sequence[type[Metric]] = (),
    class_counts: Ints64 | None = None,
) -> Resampled:
    """The metrics of the resampled videos; arguments as for `evaluated_run` and `resample`.

    The loss is left out if it is not the mean of the losses of the videos, because then it has no interval.
    """
    resampled = resample(
        samples.videos, samples.num_classes, resamples, seed, with_progress, metric_classes, class_counts
    )
    has_loss = _is_mean_of_videos(samples)
    figures = {key: values for key, values in resampled.figures.items() if key != Loss.key or has_loss}
    return resampled._replace(figures=figures)


def _is_mean_of_videos(samples: EvalSamples) -> bool:
    """Whether the loss of the evaluation is the mean of the losses of the videos.

    The losses of the videos are cross-entropies, so this is false if the run has another loss. The mean over a
    sample may differ from the loss by chance, so five standard errors are allowed.
    """
    loss, losses = samples.figures.get(Loss.key), samples.videos.losses
    if loss is None or not len(losses):
        return False
    five_errors = 5 * float(losses.std()) / len(losses) ** 0.5 if samples.seen > len(losses) else 0.0
    return bool(abs(float(losses.mean()) - loss) <= five_errors + 1e-3 * abs(loss))


def _short_names(folders: Sequence[str]) -> list[str]:
    """A short unique name for each path: its last part, or as many parts as are needed to make all names differ."""
    components = [storage.absolute(folder).split("/") for folder in folders]
    for depth in range(1, max(map(len, components))):
        names = ["/".join(path[-depth:]) for path in components]
        if len(set(names)) == len(names):
            return names
    return list(folders)


FEWEST_VIDEOS = 10  # with fewer videos, resampling says nothing about other videos


def interval_of(run: Run, name: str) -> Interval | None:
    """The 95 % interval of the metric with the key `name`; None if there are too few videos or labels for one.

    For Hit@1, a share of independent videos, this is Wilson's interval; for other metrics it is from the bootstrap.
    """
    if name == MeanAveragePrecision.key:
        labels = np.array([row["positives"] for row in run.samples.figures["classes"]])
        return interval_of_mean_ap(run, figure(run, name), run.resampled[name], run.excess, labels)
    if name == HitAtOne.key:
        return interval_if_certain(
            wilson_interval(figure(run, name), max(1, run.samples.seen)), len(run.samples.videos)
        )
    least = 0.0 if is_share(run, name) else None
    bounds = interval(figure(run, name), run.resampled[name], shrink_of(run), least=least)
    return interval_if_certain(bounds, len(run.samples.videos))


LABELS_FOR_MEANS = 10  # if half of the classes have fewer labels, the correction of a mean AP is too rough


def interval_of_mean_ap(
    run: Run, mean_ap: float, resampled: Floats64, excess: Floats64, labels: Ints64
) -> Interval | None:
    """The 95 % interval of the mean AP that some classes would have over very many videos like these.

    The AP of a class with few labels is too high, so the interval is shifted down; it may lie below `mean_ap`. In
    simulations it covers the mean AP of very many videos in 88 to 96 % of the cases.

    Args:
      resampled: [R], mean of the corrected APs of the classes in each set of resampled videos.
      excess: the entries of `Run.excess` of the classes; nan for a class without a label in the sample.

    Returns:
      The interval; None if there are too few videos, or if half of the classes have too few labels.
    """
    if np.median(labels) < LABELS_FOR_MEANS:
        return None
    bounds = interval(mean_ap - _excess_of_all(run, float(np.nanmean(excess))), resampled, shrink_of(run))
    return interval_if_certain(bounds, len(run.samples.videos))


def _excess_of_all(run: Run, excess: Any) -> Any:
    """By how much an AP over all evaluated videos is too high.

    This excess is inversely proportional to the number of videos.
    """
    return excess * shrink_of(run) ** 2


def interval_if_certain(bounds: Interval, videos: int) -> Interval | None:
    """The interval; None if it is from fewer than FEWEST_VIDEOS `videos`, or if its two bounds are equal.

    The bounds are equal if, for example, all videos have the same value: this says nothing about other videos.
    """
    return None if videos < FEWEST_VIDEOS or bounds.low == bounds.high else bounds


def is_share(run: Run, name: str) -> bool:
    """Whether all values of the metric with the key `name` are from 0 to 1; always False for the loss."""
    values = np.append(run.resampled[name], figure(run, name))
    return name != Loss.key and bool((values[~np.isnan(values)] <= 1).all() and (values[~np.isnan(values)] >= 0).all())


def class_intervals(run: Run, average_precisions: Floats64) -> tuple[Floats64, Floats64]:
    """(lower, upper) bounds of the AP of each class over very many videos, float64 [C] each; nan if not known.

    Args:
      average_precisions: float64 [C], AP of each class over all evaluated videos; nan for a class without a label.
    """
    return intervals(average_precisions - _excess_of_all(run, run.excess), run.class_aps, shrink_of(run))


def difference_interval(first: Run, other: Run, name: str) -> Interval:
    """The 95 % interval of the metric with the key `name` of `other`, minus that of `first`.

    Both runs must have sampled the same videos (`same_videos`).
    """
    differences = np.subtract(other.resampled[name], first.resampled[name])
    least = -1.0 if is_share(first, name) and is_share(other, name) else None
    return interval(figure(other, name) - figure(first, name), differences, shrink_of(first), least=least)


def shrink_of(run: Run) -> float:
    """sqrt(sampled videos / evaluated videos).

    By this factor the spread of a metric over all evaluated videos is smaller than that over the sample.
    """
    return float(np.sqrt(len(run.samples.videos) / max(1, run.samples.seen)))


def same_videos(first: Run, other: Run) -> bool:
    """Whether both runs sampled the same videos with the same labels, so that their resamples can be compared."""
    videos, other_videos = first.samples.videos, other.samples.videos
    return first.samples.num_classes == other.samples.num_classes and all(
        np.array_equal(getattr(videos, name), getattr(other_videos, name)) for name in ("keys", "num_labels", "labels")
    )


def figure(run: Run, name: str) -> Any:
    """The value of the metric with the key `name` over all videos; None if it is not defined."""
    return run.samples.figures.get(name)
