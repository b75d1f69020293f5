"""`yt8m report RUN [RUN ...]`: writes one HTML page with the metrics and charts of one or more runs.

The page is one file, which loads no other file. This module computes its content; the markup is the template
data/report.html.jinja. The script of the page (data/report.js) sorts and searches its tables. The content security
policy in the head of the page names the hash of this script, so that a browser runs no other.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from absl import logging

from yt8m import options, storage, terminal
from yt8m.config import data_fit, run_dir
from yt8m.config.data_config import DataConfig
from yt8m.config.of_run import same_as
from yt8m.config.programs import EvalConfig
from yt8m.errors import UsageError, missing_extra, quantity
from yt8m.eval_util import eval_samples
from yt8m.eval_util.metrics import Description, gap_first, why_undefined
from yt8m.options import option, path_option
from yt8m.records import shards
from yt8m.records.vocabulary import Vocabulary
from yt8m.reports import charts, differences, measures, media_links, slices, templates, worst_videos
from yt8m.reports.loading import FEWEST_VIDEOS, LABELS_FOR_MEANS, Run, config_of, figure, interval_of, is_share, load
from yt8m.reports.measures import ENOUGH_LABELS, UNDEFINED, ClassFigure, ClassRow, class_rows
from yt8m.reports.run_list import RunsConfig
from yt8m.reports.slices import ClassCounts, Division
from yt8m.reports.worst_videos import WorstVideo
from yt8m.storage import temporary

__all__ = ["ReportConfig", "require_libraries", "run", "write"]

PAGE, COMPARISON = "report.html", "comparison.html"


@dataclass(frozen=True)
class ReportConfig(options.Checked):
    """The flags of `yt8m report`."""

    model: tuple[str, ...] = same_as(RunsConfig, "model", aliases=("train_dir",))
    output: str = path_option(
        f"the page; by default eval/{PAGE} in the folder of the run, {COMPARISON} here for several",
        flag="out",
        aliases=("output",),
    )
    media: str = same_as(EvalConfig, "media", needs="")
    resamples: int = option(200, "sets of videos drawn for the confidence intervals", minimum=10, maximum=100_000)
    seed: int = option(0, "seed for drawing these sets", minimum=0)
    json: bool = option(False, terminal.JSON_HELP)


def run(config: ReportConfig, folders: Sequence[str]) -> None:
    """Writes the page of the runs in these folders; raises like `write`, and `UsageError` if no run is named."""
    if not folders:
        raise UsageError("no run is named: yt8m report RUN [RUN ...].")
    path, loaded = _write(folders, config)
    if config.json:
        terminal.print_json({"page": path, "runs": [_figures_of(run) for run in loaded]})


def _figures_of(run: Run) -> dict[str, Any]:
    """The figures of a run on the page, with their 95 % intervals, by the keys of report.json."""
    saved = run.samples.figures
    figures = {metric.key: figure(run, metric.key) for metric in run.samples.descriptions()}
    is_defined = {key: not why_undefined(key, value, bool(saved["classes"])) for key, value in figures.items()}
    bounds = {key: interval_of(run, key) for key in figures if is_defined[key] and key in run.resampled}
    return {
        "run": run.folder,
        **{name: saved[name] for name in ("model", "global_step", "num_examples")},
        "figures": {key: value if is_defined[key] else None for key, value in figures.items()},
        "intervals": {key: [interval.low, interval.high] for key, interval in bounds.items() if interval is not None},
    }


def require_libraries() -> None:
    """Checks that the libraries of the report are installed, and that matplotlib finds a folder that it can write."""
    for name in ("matplotlib", "jinja2"):
        if importlib.util.find_spec(name) is None:
            raise missing_extra("the report", name, "reports")
    with temporary.naming_tmpdir():  # without a home folder, matplotlib makes a temporary one
        import matplotlib

        matplotlib.get_cachedir()


def write(runs: Sequence[str], config: ReportConfig | None = None) -> str:
    """Writes the page of the runs in these folders; returns its path.

    For a single run, a CSV file of the labels that look wrong or missing is written into the folder of the page too.
    """
    return _write(runs, config or ReportConfig())[0]


def _write(runs: Sequence[str], config: ReportConfig) -> tuple[str, list[Run]]:
    """Like `write`, and returns the runs too."""
    require_libraries()
    media_links.check(config.media)
    output = config.output or (storage.join(runs[0], eval_samples.FOLDER, PAGE) if len(runs) == 1 else COMPARISON)
    loaded = load(runs, config.resamples, config.seed)
    names = [_vocabulary_of(run) for run in loaded]
    counts = [class_counts(run, vocabulary) for run, vocabulary in zip(loaded, names, strict=True)]
    text = page(loaded, names, counts, lambda ids: media_links.read(config.media, output, ids))
    storage.write(output, text)
    logging.info("the report is %s", output)
    if len(runs) == 1:
        path = worst_videos.labels_to_check_path(output, PAGE)
        count = worst_videos.write_labels_to_check(path, loaded[0].samples.videos, names[0])
        logging.info("%d labels that look wrong or missing are in %s", count, path)
    return output, loaded


def class_counts(run: Run, names: Vocabulary) -> ClassCounts:
    """How often each class occurs, from the vocabulary or else the manifests of the training files; all 0 if unknown.

    A vocabulary may have the counts of other data than the run was trained on. So the unit of these counts, which the
    page shows, says that they are from the vocabulary.
    """
    count, config = run.samples.num_classes, config_of(run)
    data = config.data if config else DataConfig()
    counts = data_fit.training_counts(names, dataclasses.replace(data, num_classes=count))
    if counts is None:
        return ClassCounts(np.zeros(count, np.int64))
    return ClassCounts(counts, "videos, by the vocabulary") if names.counts.any() else ClassCounts(counts)


def _vocabulary_of(run: Run) -> Vocabulary:
    """The vocabulary of the run, or else that of the data that it was evaluated on."""
    count, evaluation = run.samples.num_classes, storage.join(run.folder, eval_samples.FOLDER)
    return (run_dir.own_names(run.folder, count) or run_dir.own_names(evaluation, count)).shown(count)


_NUM_ROWS = 10  # of each table of best, worst or most different classes
_NUM_CONFUSIONS = 15  # rows of the table of confused classes
# Maps the ids of videos to {id: link} of those that have a link.
Links = Callable[[Collection[str]], Mapping[str, str]]


class _Figure(NamedTuple):
    """A metric in its card on the page, as texts.

    Attributes:
      interval: its 95 % interval; UNDEFINED if the videos are too few for one; the reason if it has no value.
      left: where the bar that shows the interval begins on the scale from 0 to 1, in percent; empty if there is no bar.
      width: width of that bar, in percent; empty if there is no bar.
    """

    name: str
    value: str
    interval: str = ""
    left: str = ""
    width: str = ""


class _Confused(NamedTuple):
    """A `Confusion` with the names of its classes, and with the ids of some of its videos."""

    missed: str
    predicted: str
    videos: int
    share: float
    ids: list[str]


class _View(NamedTuple):
    """What the page shows of one run.

    Attributes:
      candidates: the rows of the table of the candidates among which the model was chosen; empty if it was named.
      guarantee: what the thresholds guarantee, as in report.json; None if nothing.
    """

    run: Run
    names: Vocabulary
    about: str
    figures: list[_Figure]
    facts: str
    origin: list[tuple[str, Any]]
    best: list[ClassFigure]
    worst: list[ClassFigure]
    differing: list[tuple[ClassFigure, ClassFigure]]
    confused: list[_Confused]
    classes: list[ClassRow]
    candidates: list[tuple[str, ...]]
    guarantee: Mapping[str, Any] | None
    divided: list[Division]
    worst_videos: list[WorstVideo]


def page(runs: Sequence[Run], names: Sequence[Vocabulary], counts: Sequence[ClassCounts], links: Links) -> str:
    """The HTML for one run, or for several side by side.

    Args:
      links: a function that returns {id: link} for the ids of the videos that the page names.
    """
    by_class = [
        measures.class_figures(run.samples.figures, vocabulary) for run, vocabulary in zip(runs, names, strict=True)
    ]
    ranked = [measures.best_and_worst(rows, _NUM_ROWS) for rows in by_class]
    verticals = [measures.verticals(rows) for rows in by_class]
    first, most_videos = runs[0], worst_videos.MOST_VIDEOS // len(runs)
    views = [
        _view(run, vocabulary, run_counts, best, worst, _most_different(rows, by_class[0]), most_videos)
        for run, vocabulary, run_counts, rows, (best, worst, _) in zip(
            runs, names, counts, by_class, ranked, strict=True
        )
    ]
    return templates.render(
        "report.html.jinja",
        title=f"Report: {', '.join(run.name for run in runs)}",
        views=views,
        media=links(_ids_on_page(views)),
        resamples=len(next(iter(first.resampled.values()))),
        sampled=len(first.samples.videos),
        seen=first.samples.seen,
        settings=differences.settings(runs) if len(runs) > 1 else [],
        differences=[row for run in runs[1:] for row in differences.differing_figures(first, run)],
        curves=charts.training(runs),
        key_of_curves=charts.key_of_training(runs),
        predictions=[charts.precision_recall(runs), charts.calibration(runs)],
        has_classes=any(by_class),
        enough=ENOUGH_LABELS,
        fewest=FEWEST_VIDEOS,
        fewest_labels=LABELS_FOR_MEANS,
        has_best_f1=any(run.samples.points.guarantee is None for run in runs),
        has_common=any(run.samples.points.guarantee is None and not run.samples.points.is_own.all() for run in runs),
        has_few=any(row.remark.startswith("(") for view in views for row in view.classes),
        of_classes=[charts.classes(runs, by_class), charts.average_precisions(runs, by_class)] if any(by_class) else [],
        of_verticals=[charts.verticals(runs, verticals)] if any(verticals) else [],
        least=ranked[0][2],
    )


def _ids_on_page(views: Sequence[_View]) -> set[str]:
    """The ids of the videos that the page names."""
    confused = {video for view in views for pair in view.confused for video in pair.ids}
    return confused | {video.id for view in views for video in view.worst_videos}


def _view(
    run: Run,
    names: Vocabulary,
    counts: ClassCounts,
    best: list[ClassFigure],
    worst: list[ClassFigure],
    differing: list[tuple[ClassFigure, ClassFigure]],
    most_videos: int,
) -> _View:
    saved_figures = run.samples.figures
    metrics = gap_first(run.samples.descriptions())
    others = [metric for metric in metrics if metric.key not in run.resampled]
    return _View(
        run,
        names,
        about=(
            f"{saved_figures['model']}, step {saved_figures['global_step']:,}, "
            f"{quantity(saved_figures['num_examples'], 'video', ',')}"
        ),
        figures=[_figure(run, metric) for metric in metrics if metric.key in run.resampled],
        facts="; ".join(_fact(run, metric) for metric in others),
        origin=[
            ("folder", run.folder),
            ("checkpoint", saved_figures["checkpoint"]),
            *saved_figures.get("versions", {}).items(),
        ],
        best=best,
        worst=worst,
        differing=differing,
        confused=_confused(run, names),
        classes=class_rows(run, names),
        candidates=list(_candidates(run)),
        guarantee=run.samples.figures.get("guarantee"),
        divided=slices.divisions(run, names, counts),
        worst_videos=worst_videos.find_worst(run.samples.videos, names, most_videos),
    )


def _candidates(run: Run) -> Iterator[tuple[str, ...]]:
    """The candidates among which the model of the run was chosen: their figures, seconds, and which was chosen."""
    config = config_of(run)
    for row in config.search.trials if config else ():
        yield (
            f"{row['candidate']} (chosen)" if row["is_chosen"] else row["candidate"],
            f"{row['map']:.4f} ± {1.96 * row['map_error']:.4f}",
            f"{row['gap']:.4f} ± {1.96 * row['gap_error']:.4f}",
            f"{row['hit_at_one']:.4f}",
            f"{row['seconds']:.1f}",
        )


def _confused(run: Run, names: Vocabulary) -> list[_Confused]:
    videos = run.samples.videos
    return [
        _Confused(
            names.name(confusion.missed),
            names.name(confusion.predicted),
            confusion.videos,
            confusion.share,
            [shards.id_text(videos.ids[row]) for row in confusion.rows],
        )
        for confusion in measures.confusions(videos, run.samples.num_classes, _NUM_CONFUSIONS)
    ]


def _fact(run: Run, metric: Description) -> str:
    value = figure(run, metric.key)
    why = why_undefined(metric.key, value, bool(run.samples.figures["classes"]))
    return f"{metric.name} {UNDEFINED} ({why})" if why else f"{metric.name} {metric.text(value)}"


def _figure(run: Run, metric: Description) -> _Figure:
    value = figure(run, metric.key)
    if why := why_undefined(metric.key, value, bool(run.samples.figures["classes"])):
        return _Figure(metric.name, UNDEFINED, why)
    bounds = interval_of(run, metric.key)
    if bounds is None:
        return _Figure(metric.name, metric.text(value, 4), UNDEFINED)
    low, high = bounds
    interval = f"{metric.text(low, 4)} to {metric.text(high, 4)}"
    bar = (f"{100 * low:.2f}", f"{100 * (high - low):.2f}") if is_share(run, metric.key) else ("", "")
    return _Figure(metric.name, metric.text(value, 4), interval, *bar)


def _most_different(
    rows: Sequence[ClassFigure], first_rows: Sequence[ClassFigure]
) -> list[tuple[ClassFigure, ClassFigure]]:
    """(class, same class in the first run) for the _NUM_ROWS classes whose AP differs most, the largest first.

    Classes with fewer than ENOUGH_LABELS labels are left out, unless all classes have fewer.
    """
    first = {row.number: row for row in first_rows}
    both = [(row, first[row.number]) for row in rows if row.number in first and row.name == first[row.number].name]
    frequent = [pair for pair in both if pair[0].positives >= ENOUGH_LABELS] or both
    frequent.sort(key=lambda pair: -abs(pair[0].average_precision - pair[1].average_precision))
    return frequent[:_NUM_ROWS]
