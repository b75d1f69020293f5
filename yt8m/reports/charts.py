"""The charts of the report: precision and recall, calibration, classes, verticals, and metrics over the steps.

A vertical is the coarse category of a class, such as Animals.

Each chart is a matplotlib figure, saved as an SVG image. Its text and lines follow the reader's light or dark theme.
"""

from __future__ import annotations

import base64
import io
import json
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from yt8m.errors import quantity
from yt8m.eval_util.arrays import Floats64
from yt8m.eval_util.metrics import names_of_details
from yt8m.eval_util.score_calibration import reliability
from yt8m.reports import measures
from yt8m.reports.loading import Curve, Run
from yt8m.reports.measures import ClassFigure, VerticalFigure

WIDTH = 4.2  # inches: about the width of a phone, so that a phone shows the text at its full size
INK = "#20242c"  # colour of text and lines in the light theme; the SVG file has var(--ink) in its place
_THEME = f"<style>svg{{--ink:{INK}}}@media (prefers-color-scheme:dark){{svg{{--ink:#d5dae2}}}}</style>"
_SETTINGS = {
    "svg.hashsalt": "yt8m",  # the same run gives the same page, byte for byte
    "svg.fonttype": "path",
    "text.parse_math": False,  # a name may contain a dollar sign
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.18,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "figure.dpi": 200,
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "grid.color"), INK
    ),
}
_MOST_POINTS = 500  # a curve over the steps is drawn with at most so many points
_MOST_VECTOR_DOTS = 400  # a scatter plot with more dots is rasterised, to keep the file small


class Mark(NamedTuple):
    """A value in a chart: its coordinates on the axes, and the text that the page shows if the pointer is on it."""

    x: float
    y: float
    text: str


Draw = Callable[[Any], list[Mark]]  # draws on matplotlib axes, and returns the marks of what it drew


class Picture(NamedTuple):
    """An image with its texts and its values.

    Attributes:
      points: JSON, a list of [x, y, text], one for each value; x and y are shares of the width and of the height, from
        the upper left corner.
    """

    source: str
    alt: str
    caption: str
    points: str = "[]"


def picture(draw: Draw, alt: str, caption: str, height: float = 2.9) -> Picture:
    """The image of what `draw` draws, with its texts; `height` is in inches."""
    svg, points = _draw_svg(draw, height)
    return Picture(f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}", alt, caption, points)


def legend(axes: Any, handles: list[Any], names: Iterable[str]) -> None:
    """Draws a legend above the axes if there is more than one name.

    `handles` has the matplotlib artist that stands for each name. The artists are passed explicitly, because matplotlib
    leaves out artists whose labels begin with `_`.
    """
    labels = [shortened_name(name) for name in names]
    if len(labels) > 1:
        axes.figure.legend(handles, labels, loc="outside upper left", ncols=2)


def shortened_name(name: str) -> str:
    """The name, cut to 28 characters to fit in a picture. Its end is kept: paths mostly differ at the end."""
    return name if len(name) <= 28 else f"...{name[-25:]}"


def _draw_svg(draw: Draw, height: float) -> tuple[str, str]:
    """(the text of the SVG file with what `draw` draws, the `points` of its `Picture`)."""
    import matplotlib
    from matplotlib.figure import Figure

    file = io.StringIO()
    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        # If the font lacks the script of a name, the name is drawn as boxes. The page also shows it as text.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        drawing = Figure(figsize=(WIDTH, height), layout="constrained")
        axes = drawing.add_subplot()
        marks = draw(axes)
        drawing.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = file.getvalue().replace(INK, "var(--ink)")
    start = text.index(">", text.index("<svg")) + 1
    return text[:start] + _THEME + text[start:], _points_json(axes, marks)


def _points_json(axes: Any, marks: Sequence[Mark]) -> str:
    """The marks as JSON; see `Picture.points`."""
    if not marks:
        return "[]"
    shares = axes.figure.transFigure.inverted().transform(axes.transData.transform([mark[:2] for mark in marks]))
    points = [
        [round(x, 4), round(1 - y, 4), mark.text]
        for (x, y), mark in zip(shares.tolist(), marks, strict=True)
        if math.isfinite(x) and math.isfinite(y)
    ]
    return json.dumps(points, ensure_ascii=False, separators=(",", ":"))


DrawnRun = tuple[Any, list[Mark]]  # the artist that stands for a run in the legend, and the marks of the run


def _add_legend(
    axes: Any, runs: Sequence[Run], drawn: Sequence[DrawnRun], names_runs: bool | None = None
) -> list[Mark]:
    """Draws the legend of the runs; returns the marks of all runs."""
    legend(axes, [handle for handle, _ in drawn], (run.name for run in runs))
    if not (len(runs) > 1 if names_runs is None else names_runs):
        return [mark for _, marks in drawn for mark in marks]
    pairs = [(run, mark) for run, (_, marks) in zip(runs, drawn, strict=True) for mark in marks]
    return [mark._replace(text=f"{run.name}: {mark.text}") for run, mark in pairs]


def precision_recall(runs: Sequence[Run]) -> Picture:
    """The precision-recall curve of each run."""
    curves = [measures.precision_recall(run.samples.videos) for run in runs]

    def draw(axes: Any) -> list[Mark]:
        drawn = []
        for run, curve in zip(runs, map(measures.thinned, curves), strict=True):
            (line,) = axes.plot(curve.recall, curve.precision, color=run.colour, linewidth=1.6, clip_on=False)
            points = zip(*(column.tolist() for column in curve), strict=True)
            marks = [Mark(r, p, f"precision {p:.3f}, recall {r:.3f}, score {score:.3g}") for p, r, score in points]
            drawn.append((line, marks))
        axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02))
        return _add_legend(axes, runs, drawn)

    summaries = []
    for run, curve in zip(runs, curves, strict=True):
        precisions = curve.precision[curve.recall >= 0.5]
        summary = f"precision {precisions[0]:.2f} at recall 0.5" if len(precisions) else "recall below 0.5"
        summaries.append(f"{run.name}: {summary}")
    top_k = runs[0].samples.videos.scores.shape[1]
    caption = f"The {top_k} best predictions of each video in one list, best first. GAP is the area below the curve."
    return picture(draw, f"Precision against recall. {'; '.join(summaries)}", caption)


def calibration(runs: Sequence[Run]) -> Picture:
    """The calibration curve (reliability diagram) of each run: the share of correct predictions by score."""
    curves = [reliability(*run.samples.videos.predictions()) for run in runs]

    def draw(axes: Any) -> list[Mark]:
        axes.plot([0, 1], [0, 1], color="#8b8fa3", linestyle=":", linewidth=1)
        drawn = []
        for run, curve in zip(runs, curves, strict=True):
            (line,) = axes.plot(
                curve.scores, curve.shares, "o-", color=run.colour, markersize=4, linewidth=1.6, clip_on=False
            )
            bins = zip(*(column.tolist() for column in curve[:3]), strict=True)
            text = "mean score {:.3f}; {:.3f} of {:,} predictions are right"
            drawn.append((line, [Mark(score, share, text.format(score, share, size)) for score, share, size in bins]))
        axes.set(xlabel="score", ylabel="share of right predictions", xlim=(0, 1), ylim=(0, 1.02))
        return _add_legend(axes, runs, drawn)

    errors = "; ".join(f"{run.name}: {curve.error:.3f}" for run, curve in zip(runs, curves, strict=True))
    caption = (
        "Each dot stands for the predictions with scores in one tenth of the scale. On the dotted line scores are "
        f"probabilities: 80 % of the predictions with a score of 0.8 are right. Mean distance from it: {errors}."
        f"{_calibrated_distances(runs)}"
    )
    return picture(draw, f"Calibration. Mean distance of score and share: {errors}", caption)


def _calibrated_distances(runs: Sequence[Run]) -> str:
    """A sentence with the expected calibration error (mean distance of score and share) of each run after calibration.

    Runs whose evaluation has computed no calibration are left out; the text is empty if no run is left.
    """
    calibrations = {run.name: run.samples.figures.get("calibration") for run in runs}
    distances = "; ".join(f"{name}: {entry['ece_scaled']:.3f}" for name, entry in calibrations.items() if entry)
    if not distances:
        return ""
    return f" After calibration (fitted to one half of the videos, measured on the other): {distances}."


def classes(runs: Sequence[Run], figures: Sequence[Sequence[ClassFigure]]) -> Picture:
    """A scatter plot of AP by number of labels: a dot for each class of each run. `figures` has at least one class."""
    import matplotlib.ticker

    labels = [row.positives for rows in figures for row in rows]
    least, most = min(labels), max(labels)

    def draw(axes: Any) -> list[Mark]:
        style: dict[str, Any] = {"s": 22, "alpha": 0.6, "linewidths": 0}
        drawn = []
        for run, rows in zip(runs, figures, strict=True):
            points = [row.positives for row in rows], [row.average_precision for row in rows]
            dots = axes.scatter(*points, color=run.colour, rasterized=len(rows) > _MOST_VECTOR_DOTS, **style)
            texts = [
                f"{row.name}: AP {row.average_precision:.3f}, {quantity(row.positives, 'label', ',')}" for row in rows
            ]
            drawn.append((dots, list(map(Mark, *points, texts))))
        axes.set_xscale("log")
        if most < 20 * least:  # powers of ten alone would give one tick or none
            axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(5, integer=True))
            axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
        axes.xaxis.set_major_formatter("{x:,.0f}")  # by default matplotlib writes 100 as a power of ten
        axes.xaxis.set_minor_formatter("")
        axes.set(xlabel="labels of the class", ylabel="average precision", ylim=(-0.02, 1.02))
        return _add_legend(axes, runs, drawn)

    caption = "Each dot is a class: its average precision (AP), and its number of labels, on a logarithmic scale."
    counts = "; ".join(f"{run.name}: {quantity(len(rows), 'class')}" for run, rows in zip(runs, figures, strict=True))
    return picture(draw, f"Average precision of each class against its labels. {counts}", caption)


def average_precisions(runs: Sequence[Run], figures: Sequence[Sequence[ClassFigure]]) -> Picture:
    """A histogram: the number of classes in each tenth of the scale of AP, from the `figures` of each run."""
    values = [[row.average_precision for row in rows] for rows in figures]

    def draw(axes: Any) -> list[Mark]:
        _, _, bars = axes.hist(values, bins=[tenth / 10 for tenth in range(11)], color=[run.colour for run in runs])
        axes.set(xlabel="average precision", ylabel="classes", xlim=(0, 1))
        axes.yaxis.get_major_locator().set_params(integer=True)
        drawn = []
        for run_bars in [bars] if len(runs) == 1 else list(bars):
            tops = [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in run_bars]
            text = "AP {:.1f} to {:.1f}: {:,} classes"
            texts = [text.format(tenth / 10, (tenth + 1) / 10, int(count)) for tenth, (_, count) in enumerate(tops)]
            drawn.append((run_bars, [Mark(*top, text) for top, text in zip(tops, texts, strict=True)]))
        return _add_legend(axes, runs, drawn)

    counts = "; ".join(
        f"{run.name}: {sum(ap < 0.1 for ap in aps)} below 0.1, {sum(ap >= 0.9 for ap in aps)} from 0.9 on"
        for run, aps in zip(runs, values, strict=True)
    )
    return picture(
        draw,
        f"Number of classes by average precision. {counts}",
        f"The number of classes with an AP in each tenth of the scale. {counts}.",
    )


def verticals(runs: Sequence[Run], figures: Sequence[Sequence[VerticalFigure]]) -> Picture:
    """A bar for each vertical of each run: the mean AP of its classes. `figures` has the verticals of each run."""
    names = list(dict.fromkeys(row.name for rows in figures for row in rows))
    thickness = 0.8 / len(runs)  # of a bar; the distance between two verticals is 1

    def draw(axes: Any) -> list[Mark]:
        drawn = []
        for index, (run, rows) in enumerate(zip(runs, figures, strict=True)):
            heights = [names.index(row.name) + (index - (len(runs) - 1) / 2) * thickness for row in rows]
            bars = axes.barh(heights, [row.mean_ap for row in rows], thickness * 0.9, color=run.colour)
            texts = [f"{row.name}: mean AP {row.mean_ap:.3f} of {row.classes:,} classes" for row in rows]
            drawn.append((bars, list(map(Mark, (row.mean_ap for row in rows), heights, texts))))
        axes.set(xlabel="mean AP of its classes", xlim=(0, 1), ylim=(len(names) - 0.4, -0.6))
        axes.set_yticks(range(len(names)), [shortened_name(name) for name in names])
        axes.grid(visible=False, axis="y")
        return _add_legend(axes, runs, drawn)

    mean_aps = "; ".join(f"{row.name} {row.mean_ap:.2f}" for row in figures[0])
    height = 0.7 + len(names) * max(0.19, 0.11 * len(runs))
    caption = "Mean average precision of the classes of each vertical, the one with the most labels first."
    return picture(draw, f"Mean average precision by vertical. {runs[0].name}: {mean_aps}", caption, height)


_TITLES = {"examples_per_second": "examples a second"}


def training(runs: Sequence[Run]) -> list[Picture]:
    """A picture of each metric that a run logged in training, validation or evaluation.

    Metrics that are details of others (`metrics.names_of_details`) are left out.
    """
    names = dict.fromkeys(name for run in runs for curves in _curves_by_origin(run) for name in curves)
    return [_metric_picture(name, runs) for name in names if name not in names_of_details()]


def _curves_by_origin(run: Run) -> tuple[Mapping[str, Curve], Mapping[str, Curve], Mapping[str, Curve]]:
    """{name of the metric: curve} of the training, of the validations, and of the evaluated checkpoints."""
    return run.curves, run.validations, run.evaluations


def _metric_picture(name: str, runs: Sequence[Run]) -> Picture:
    """The curves of the metric `name` over the steps, of all runs that have it."""
    title = _TITLES.get(name, name)
    runs_with_metric = [run for run in runs if any(name in curves for curves in _curves_by_origin(run))]

    def draw(axes: Any) -> list[Mark]:
        drawn = []
        for run in runs_with_metric:
            drawn.append(_draw_series(axes, run, [curves.get(name) for curves in _curves_by_origin(run)]))
            if (best := best_point(run, name)) is not None:
                axes.plot(*best, "*", color=run.colour, markersize=12, markeredgecolor=INK, markeredgewidth=0.6)
                drawn[-1][1].append(Mark(*best, f"the best: {_value_at_step(best[1], name, int(best[0]))}"))
        axes.set(xlabel="step", ylabel=shortened_name(title))
        return _add_legend(axes, runs_with_metric, drawn, len(runs) > 1)

    return picture(draw, *_alt_and_caption(name, title, runs_with_metric))


def _draw_series(axes: Any, run: Run, curves: Sequence[Curve | None]) -> DrawnRun:
    """Draws the curves of one metric of a run.

    Args:
      curves: the curves of the training, of the validations and of the evaluated checkpoints; None for each that the
        run does not have. At least one is not None.
    """
    logged, *measured = curves
    lines, marks = [], []
    if logged is not None:
        axes.plot(*_thinned(logged.steps, logged.values), color=run.colour, alpha=0.3, linewidth=0.8)
        style = "o-" if len(logged.steps) == 1 else "-"  # a line through a single point would be invisible
        steps, values = _thinned(logged.steps, logged.smoothed())
        lines += axes.plot(steps, values, style, color=run.colour, linewidth=1.6, markersize=4)
        marks += _marks(steps, values, "training, running mean")
    for curve, marker, origin in zip(measured, ("s--", "D-"), ("validation", "evaluation"), strict=True):
        if curve is not None:
            lines += axes.plot(curve.steps, curve.values, marker, color=run.colour, linewidth=1, markersize=4)
            marks += _marks(curve.steps, curve.values, origin)
    return lines[0], marks


def _marks(steps: Floats64, values: Floats64, origin: str) -> list[Mark]:
    """A mark for each point of a curve; `origin` says what measured the values, such as `validation`."""
    points = zip(steps.tolist(), values.tolist(), strict=True)
    return [Mark(step, value, f"{origin}, step {int(step):,}: {value:.4g}") for step, value in points]


def _value_at_step(value: float, name: str, step: int) -> str:
    return f"{name} {value:.4g} at step {step:,}"


def best_point(run: Run, name: str) -> tuple[float, float] | None:
    """(step, value) of the validation or evaluated checkpoint with the best value of the metric `name`.

    None if there are fewer than two values, or if the evaluation of the run lacks the metric. Of equal values the first
    is the best. Validations that later ones are not compared with (`RunFiles.forgotten`) are left out.
    """
    higher_is_better = {metric.name: metric.higher_is_better for metric in run.samples.descriptions()}
    validated, evaluated = (_points_of(curves.get(name)) for curves in _curves_by_origin(run)[1:])
    points = [point for point in validated if point[0] not in run.training.forgotten] + evaluated
    if name not in higher_is_better or len(points) < 2:
        return None
    return max(points, key=lambda point: (point[1] if higher_is_better[name] else -point[1], -point[0]))


def _points_of(curve: Curve | None) -> list[tuple[float, float]]:
    """[(step, value), ...] of a curve; empty if there is none."""
    return [] if curve is None else list(zip(curve.steps.tolist(), curve.values.tolist(), strict=True))


def _alt_and_caption(name: str, title: str, runs: Sequence[Run]) -> tuple[str, str]:
    """(alternative text, caption) of the curves of the metric `name`; the axis, not the caption, bears its `title`."""
    logged = [run for run in runs if name in run.curves]
    last_values = "; ".join(f"{run.name}: {run.curves[name].smoothed()[-1]:.4g}" for run in logged)
    best = "; ".join(
        f"{run.name}: {_value_at_step(point[1], name, int(point[0]))}"
        for run in runs
        if (point := best_point(run, name)) is not None
    )
    values = best.removeprefix(f"{runs[0].name}: ") if len(runs) == 1 else best
    caption = f"Best: {values}." if best else ""
    alt = f"{title} over the steps of the training{f', at its end {last_values}' if last_values else ''}"
    return f"{alt}{f'; the best measured {best}' if best else ''}", caption


def key_of_training(runs: Sequence[Run]) -> str:
    """What is drawn in the charts of `training`; empty if there are none."""
    lengths = {len(curve.steps) for run in runs for curve in run.curves.values()}
    logged = (
        "a dot is the one batch that was logged" if lengths == {1} else "pale lines are single batches, strong ones "
    )
    logged += "" if lengths == {1} else "their running mean"
    drawn = [logged] if lengths else []
    drawn += ["squares are validations"] if any(run.validations for run in runs) else []
    drawn += ["diamonds are evaluated checkpoints"] if any(run.evaluations for run in runs) else []
    drawn += ["stars are the best"] if any(best_point(run, name) for run in runs for name in run.curves) else []
    text = "; ".join(drawn)
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _thinned(steps: Floats64, values: Floats64) -> tuple[Floats64, Floats64]:
    """(steps, values) of at most _MOST_POINTS points of the curve, evenly spaced."""
    stride = -(-len(steps) // _MOST_POINTS)
    return steps[::stride], values[::stride]
