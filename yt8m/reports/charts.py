"""The charts of the report: precision and recall, calibration, classes, verticals, and the run over its steps.

Each is a matplotlib figure as an SVG image, whose text and lines follow the reader's light or dark theme.
"""

from __future__ import annotations

import base64
import io
import json
import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from yt8m.eval_util.arrays import Floats64
from yt8m.eval_util.metrics import names_of_details
from yt8m.eval_util.score_calibration import reliability
from yt8m.reports import measures
from yt8m.reports.loading import Curve, Run
from yt8m.reports.measures import ClassFigure, VerticalFigure

WIDTH = 4.2  # inches; about the width of a phone, so that text is not shrunk on one
INK = "#20242c"
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
_MOST_POINTS = 500  # of a curve over the steps
_MANY = 400  # a scatter plot with more points is rasterised


class Mark(NamedTuple):
    """A value of a chart: its place on the axes, and the text that the page shows when the pointer is on it."""

    x: float
    y: float
    text: str


Draw = Callable[[Any], list[Mark]]  # draws on matplotlib axes


class Picture(NamedTuple):
    """An image as a data URL, its alternative text, its caption, and its values.

    `points` is JSON: a list of [x, y, text], where x and y are shares of the width and of the height, from the upper
    left corner.
    """

    source: str
    alt: str
    caption: str
    points: str = "[]"


def picture(draw: Draw, alt: str, caption: str, height: float = 2.9) -> Picture:
    """The picture that `draw` draws; `height` is in inches."""
    svg, points = _svg(draw, height)
    return Picture(f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}", alt, caption, points)


def legend(axes: Any, handles: list[Any], names: Iterable[str]) -> None:
    """Draws a legend above the axes if there is more than one name.

    The legend is made from handles, because matplotlib drops labels that begin with `_`.
    """
    shown = [short(name) for name in names]
    if len(shown) > 1:
        axes.figure.legend(handles, shown, loc="outside upper left", ncols=2)


def short(name: str) -> str:
    """The name, shortened to fit in a picture. The end is kept, because the end of a path tells more."""
    return name if len(name) <= 28 else f"...{name[-25:]}"


def _svg(draw: Draw, height: float) -> tuple[str, str]:
    """The SVG, and the points of a `Picture`."""
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
    return text[:start] + _THEME + text[start:], _points(axes, marks)


def _points(axes: Any, marks: Sequence[Mark]) -> str:
    """The marks as JSON: [x, y, text] of each; x and y are shares of the drawing's size, from the left and the top."""
    if not marks:
        return "[]"
    places = axes.figure.transFigure.inverted().transform(axes.transData.transform([mark[:2] for mark in marks]))
    points = [
        [round(x, 4), round(1 - y, 4), mark.text]
        for (x, y), mark in zip(places.tolist(), marks, strict=True)
        if math.isfinite(x) and math.isfinite(y)
    ]
    return json.dumps(points, ensure_ascii=False, separators=(",", ":"))


Drawn = tuple[Any, list[Mark]]  # what matplotlib drew of a run, for the legend; and the marks of it


def _in_legend(axes: Any, runs: Sequence[Run], drawn: Sequence[Drawn], names_runs: bool | None = None) -> list[Mark]:
    """Draws the legend of what was drawn of each run; returns all marks, whose texts begin with the run's name.

    Args:
      axes: matplotlib's axes.
      runs: the runs.
      drawn: what was drawn of each run.
      names_runs: whether the texts name the run; by default if there are several.
    """
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
            (line,) = axes.plot(curve.recall, curve.precision, color=run.colour, linewidth=1.6)
            points = zip(*(part.tolist() for part in curve), strict=True)
            marks = [Mark(r, p, f"precision {p:.3f}, recall {r:.3f}, score {score:.3g}") for p, r, score in points]
            drawn.append((line, marks))
        axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02))
        return _in_legend(axes, runs, drawn)

    ends = []
    for run, curve in zip(runs, curves, strict=True):
        half = curve.precision[curve.recall >= 0.5]
        precision_at_half = f"precision {half[0]:.2f} at half of the labels" if len(half) else "below half"
        ends.append(f"{run.name}: {precision_at_half}")
    best = runs[0].samples.videos.scores.shape[1]
    caption = f"The {best} best predictions of each video in one list, best first. GAP is the area below the curve."
    return picture(draw, f"Precision against recall. {'; '.join(ends)}", caption)


def calibration(runs: Sequence[Run]) -> Picture:
    """The calibration curve of each run: the share of correct predictions by score."""
    curves = [reliability(*run.samples.videos.predictions()) for run in runs]

    def draw(axes: Any) -> list[Mark]:
        axes.plot([0, 1], [0, 1], color="#8b8fa3", linestyle=":", linewidth=1)
        drawn = []
        for run, curve in zip(runs, curves, strict=True):
            (line,) = axes.plot(curve.scores, curve.shares, "o-", color=run.colour, markersize=4, linewidth=1.6)
            points = zip(*(part.tolist() for part in curve[:3]), strict=True)
            text = "mean score {:.3f}; {:.3f} of {:,} predictions are right"
            drawn.append((line, [Mark(score, share, text.format(score, share, size)) for score, share, size in points]))
        axes.set(xlabel="score", ylabel="share of right predictions", xlim=(0, 1), ylim=(0, 1.02))
        return _in_legend(axes, runs, drawn)

    errors = "; ".join(f"{run.name}: {curve.error:.3f}" for run, curve in zip(runs, curves, strict=True))
    caption = (
        "Each dot stands for the predictions with scores in one tenth of the scale. On the dotted line scores are "
        f"probabilities: 80 % of the predictions with a score of 0.8 are right. Mean distance from it: {errors}."
        f"{_after_scaling(runs)}"
    )
    return picture(draw, f"Calibration. Mean distance of score and share: {errors}", caption)


def _after_scaling(runs: Sequence[Run]) -> str:
    """What calibration would make of the scores; empty if the evaluations do not say it."""
    calibrations = {run.name: run.samples.figures.get("calibration") for run in runs}
    distances = "; ".join(f"{name}: {entry['ece_scaled']:.3f}" for name, entry in calibrations.items() if entry)
    return f" After calibration (fitted to one half of the videos, measured on the other): {distances}." * bool(
        distances
    )


def classes(runs: Sequence[Run], figures: Sequence[Sequence[ClassFigure]]) -> Picture:
    """A scatter plot of AP by number of labels, with one dot per class."""
    import matplotlib.ticker

    labels = [row.positives for rows in figures for row in rows]
    least, most = min(labels), max(labels)

    def draw(axes: Any) -> list[Mark]:
        look: dict[str, Any] = {"s": 9, "alpha": 0.45, "linewidths": 0}
        drawn = []
        for run, rows in zip(runs, figures, strict=True):
            points = [row.positives for row in rows], [row.average_precision for row in rows]
            dots = axes.scatter(*points, color=run.colour, rasterized=len(rows) > _MANY, **look)
            texts = [f"{row.name}: AP {row.average_precision:.3f}, {row.positives:,} labels" for row in rows]
            drawn.append((dots, list(map(Mark, *points, texts))))
        axes.set_xscale("log")
        if most < 20 * least:  # the axis may have no power of ten, or only one
            axes.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(5, integer=True))
            axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
        axes.xaxis.set_major_formatter("{x:,.0f}")  # by default matplotlib shows powers of ten
        axes.xaxis.set_minor_formatter("")
        axes.set(xlabel="labels of the class", ylabel="average precision", ylim=(-0.02, 1.02))
        return _in_legend(axes, runs, drawn)

    caption = "Each dot is a class: its average precision (AP), and how many labels it has, on a logarithmic scale."
    counts = "; ".join(f"{run.name}: {len(rows)} classes" for run, rows in zip(runs, figures, strict=True))
    return picture(draw, f"Average precision of each class against its labels. {counts}", caption)


def average_precisions(runs: Sequence[Run], figures: Sequence[Sequence[ClassFigure]]) -> Picture:
    """A histogram of the classes by AP."""
    values = [[row.average_precision for row in rows] for rows in figures]

    def draw(axes: Any) -> list[Mark]:
        _, _, bars = axes.hist(values, bins=[part / 10 for part in range(11)], color=[run.colour for run in runs])
        axes.set(xlabel="average precision", ylabel="classes", xlim=(0, 1))
        axes.yaxis.get_major_locator().set_params(integer=True)
        drawn = []
        for bars_of_run in [bars] if len(runs) == 1 else list(bars):
            places = [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in bars_of_run]
            text = "AP {:.1f} to {:.1f}: {:,} classes"
            texts = [text.format(part / 10, (part + 1) / 10, int(height)) for part, (_, height) in enumerate(places)]
            drawn.append((bars_of_run, [Mark(*place, text) for place, text in zip(places, texts, strict=True)]))
        return _in_legend(axes, runs, drawn)

    low = "; ".join(
        f"{run.name}: {sum(ap < 0.1 for ap in aps)} below 0.1, {sum(ap >= 0.9 for ap in aps)} from 0.9 on"
        for run, aps in zip(runs, values, strict=True)
    )
    return picture(
        draw,
        f"Number of classes by average precision. {low}",
        f"How many classes have an AP in each tenth of the scale. {low}.",
    )


def verticals(runs: Sequence[Run], figures: Sequence[Sequence[VerticalFigure]]) -> Picture:
    """Mean AP of each vertical's classes, as bars."""
    names = list(dict.fromkeys(row.name for rows in figures for row in rows))
    thick = 0.8 / len(runs)

    def draw(axes: Any) -> list[Mark]:
        drawn = []
        for index, (run, rows) in enumerate(zip(runs, figures, strict=True)):
            places = [names.index(row.name) + (index - (len(runs) - 1) / 2) * thick for row in rows]
            bars = axes.barh(places, [row.mean_ap for row in rows], thick * 0.9, color=run.colour)
            texts = [f"{row.name}: mean AP {row.mean_ap:.3f} of {row.classes:,} classes" for row in rows]
            drawn.append((bars, list(map(Mark, (row.mean_ap for row in rows), places, texts))))
        axes.set(xlabel="mean AP of its classes", xlim=(0, 1), ylim=(len(names) - 0.4, -0.6))
        axes.set_yticks(range(len(names)), [short(name) for name in names])
        axes.grid(visible=False, axis="y")
        return _in_legend(axes, runs, drawn)

    mean_aps = "; ".join(f"{row.name} {row.mean_ap:.2f}" for row in figures[0])
    height = 0.7 + len(names) * max(0.19, 0.11 * len(runs))
    caption = "Mean average precision of the classes of each vertical, the one with the most labels first."
    return picture(draw, f"Mean average precision by vertical. {runs[0].name}: {mean_aps}", caption, height)


_TITLES = {"examples_per_second": "examples a second"}


def training(runs: Sequence[Run]) -> list[Picture]:
    """One picture for each metric that the runs logged, validated or evaluated, except `metrics.names_of_details`."""
    names = dict.fromkeys(name for run in runs for part in _series(run) for name in part)
    return [_curve(name, runs) for name in names if name not in names_of_details()]


def _series(run: Run) -> tuple[Mapping[str, Curve], Mapping[str, Curve], Mapping[str, Curve]]:
    """The curves of training, validations and evaluated checkpoints."""
    return run.curves, run.validations, run.evaluations


def _curve(name: str, runs: Sequence[Run]) -> Picture:
    title = _TITLES.get(name, name)
    having = [run for run in runs if any(name in part for part in _series(run))]

    def draw(axes: Any) -> list[Mark]:
        drawn = []
        for run in having:
            drawn.append(_draw_series(axes, run, [part.get(name) for part in _series(run)]))
            if (top := best_point(run, name)) is not None:
                axes.plot(*top, "*", color=run.colour, markersize=12, markeredgecolor=INK, markeredgewidth=0.6)
                drawn[-1][1].append(Mark(*top, f"the best: {_value_at_step(top[1], name, int(top[0]))}"))
        axes.set(xlabel="step", ylabel=short(title))
        return _in_legend(axes, having, drawn, len(runs) > 1)

    return picture(draw, *_texts(name, title, having))


def _draw_series(axes: Any, run: Run, curves: Sequence[Curve | None]) -> Drawn:
    """Draws the curves of one metric of a run; returns a handle for the legend, and the marks."""
    logged, *measured = curves
    lines, marks = [], []
    if logged is not None:
        axes.plot(*_few(logged.steps, logged.values), color=run.colour, alpha=0.3, linewidth=0.8)
        style = "o-" if len(logged.steps) == 1 else "-"  # a line through only one point would be invisible
        steps, values = _few(logged.steps, logged.smoothed())
        lines += axes.plot(steps, values, style, color=run.colour, linewidth=1.6, markersize=4)
        marks += _marks(steps, values, "training, running mean")
    for curve, marker, origin in zip(measured, ("s--", "D-"), ("validation", "evaluation"), strict=True):
        if curve is not None:
            lines += axes.plot(curve.steps, curve.values, marker, color=run.colour, linewidth=1, markersize=4)
            marks += _marks(curve.steps, curve.values, origin)
    return lines[0], marks


def _marks(steps: Floats64, values: Floats64, origin: str) -> list[Mark]:
    points = zip(steps.tolist(), values.tolist(), strict=True)
    return [Mark(step, value, f"{origin}, step {int(step):,}: {value:.4g}") for step, value in points]


def _value_at_step(value: float, name: str, step: int) -> str:
    return f"{name} {value:.4g} at step {step:,}"


def best_point(run: Run, name: str) -> tuple[float, float] | None:
    """(step, value) of the best validation or evaluated checkpoint by a metric; None if there are fewer than two.

    Validations that no longer count for best/ do not count here either.
    """
    higher = {metric.name: metric.higher_is_better for metric in run.samples.descriptions()}
    validated, evaluated = (_values_of(part.get(name)) for part in _series(run)[1:])
    points = [point for point in validated if point[0] not in run.training.forgotten] + evaluated
    if name not in higher or len(points) < 2:
        return None
    return max(points, key=lambda point: (point[1] if higher[name] else -point[1], -point[0]))


def _values_of(curve: Curve | None) -> list[tuple[float, float]]:
    return [] if curve is None else list(zip(curve.steps.tolist(), curve.values.tolist(), strict=True))


def _texts(name: str, title: str, runs: Sequence[Run]) -> tuple[str, str]:
    """The alternative text and the caption of the curves of a metric."""
    logged = [run for run in runs if name in run.curves]
    curves_of_kinds = [part for run in runs for part in _series(run)]
    ends = "; ".join(f"{run.name}: {run.curves[name].smoothed()[-1]:.4g}" for run in logged)
    best = "; ".join(
        f"{run.name}: {_value_at_step(top[1], name, int(top[0]))}"
        for run in runs
        if (top := best_point(run, name)) is not None
    )
    is_dot = all(len(run.curves[name].steps) == 1 for run in logged)
    drawn = "the dot is the one batch that was logged" if is_dot else "single batches (pale) and their running mean"
    sentences = [f"{title} over the steps{f': {drawn}' if logged else ''}."]
    sentences += ["Squares are validations."] if any(name in run.validations for run in runs) else []
    sentences += ["Diamonds are evaluated checkpoints."] if any(name in part for part in curves_of_kinds[2::3]) else []
    sentences += [f"The star is the best: {best}."] if best else []
    alt = f"{title} over the steps of the training{f', at its end {ends}' if ends else ''}"
    return f"{alt}{f'; the best measured {best}' if best else ''}", " ".join(sentences)


def _few(steps: Floats64, values: Floats64) -> tuple[Floats64, Floats64]:
    """The curve thinned to at most _MOST_POINTS points."""
    every = -(-len(steps) // _MOST_POINTS)
    return steps[::every], values[::every]
