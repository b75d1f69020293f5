"""The charts of the report: training curves, precision and recall, calibration, classes, verticals.

Each is a matplotlib figure as an SVG image, whose text and lines follow the reader's light or dark theme.
"""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from yt8m.commands.report import measures
from yt8m.commands.report.loading import Run, figure
from yt8m.commands.report.measures import ClassFigure, VerticalFigure
from yt8m.eval_util.arrays import Floats64
from yt8m.eval_util.metrics import Loss

WIDTH = 4.2  # inches; about the width of a phone, so that text is not shrunk on one
_INK = "#20242c"
_THEME = f"<style>svg{{--ink:{_INK}}}@media (prefers-color-scheme:dark){{svg{{--ink:#d5dae2}}}}</style>"
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
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "grid.color"), _INK
    ),
}
_MANY = 400  # a scatter plot with more points is rasterised
_TITLES = {"examples_per_second": "examples a second"}


class Picture(NamedTuple):
    """An image as a data URL, its alternative text, and its caption."""

    source: str
    alt: str
    caption: str


def picture(draw: Callable[[Any], None], alt: str, caption: str, height: float = 2.9) -> Picture:
    """The picture that `draw` draws on matplotlib axes; `height` is in inches."""
    data = base64.b64encode(_svg(draw, height).encode()).decode()
    return Picture(f"data:image/svg+xml;base64,{data}", alt, caption)


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


def _svg(draw: Callable[[Any], None], height: float) -> str:
    import matplotlib
    from matplotlib.figure import Figure

    file = io.StringIO()
    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        # If the font lacks the script of a name, the name is drawn as boxes. The page also shows it as text.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        drawing = Figure(figsize=(WIDTH, height), layout="constrained")
        draw(drawing.add_subplot())
        drawing.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = file.getvalue().replace(_INK, "var(--ink)")
    start = text.index(">", text.index("<svg")) + 1
    return text[:start] + _THEME + text[start:]


def training(runs: Sequence[Run]) -> list[Picture]:
    """One picture for each metric that the runs logged in training."""
    names = dict.fromkeys(name for run in runs for name in run.curves)
    return [_curve(name, [run for run in runs if name in run.curves]) for name in names]


def _curve(name: str, runs: Sequence[Run]) -> Picture:
    title = _TITLES.get(name, name)
    values = {run.name: _value(run, name) for run in runs}

    def draw(axes: Any) -> None:
        lines = []
        for run in runs:
            curve = run.curves[name]
            axes.plot(*_few(curve.steps, curve.values), color=run.colour, alpha=0.3, linewidth=0.8)
            style = "o-" if len(curve.steps) == 1 else "-"  # a line through only one point would be invisible
            smooth = _few(curve.steps, curve.smoothed())
            lines += axes.plot(*smooth, style, color=run.colour, linewidth=1.6, markersize=4)
            if values[run.name] is not None:
                axes.plot(figure(run, "global_step"), values[run.name], "D", color=run.colour, markersize=5)
        axes.set(xlabel="step", ylabel=short(title))
        legend(axes, lines, (run.name for run in runs))

    ends = "; ".join(f"{run.name}: {run.curves[name].smoothed()[-1]:.4g}" for run in runs)
    told = " The diamond is the evaluation." if any(value is not None for value in values.values()) else ""
    is_dot = all(len(run.curves[name].steps) == 1 for run in runs)
    drawn = "the dot is the one batch that was logged" if is_dot else "single batches (pale) and their running mean"
    return picture(
        draw, f"{title} over the steps of the training, at its end {ends}", f"{title} over the steps: {drawn}.{told}"
    )


def _value(run: Run, name: str) -> float | None:
    """The evaluation's value of the metric called `name`; None for the loss, which differs in training."""
    keys = [one.key for one in run.samples.described() if one.name == name and one.key != Loss.key]
    return figure(run, keys[0]) if keys else None


def _few(steps: Floats64, values: Floats64, most: int = 500) -> tuple[Floats64, Floats64]:
    """The curve thinned to at most `most` points."""
    every = -(-len(steps) // most)
    return steps[::every], values[::every]


def precision_recall(runs: Sequence[Run]) -> Picture:
    """The precision-recall curve of each run."""
    curves = [measures.precision_recall(run.samples.videos) for run in runs]

    def draw(axes: Any) -> None:
        lines = []
        for run, curve in zip(runs, map(measures.thinned, curves), strict=True):
            lines += axes.plot(curve.recall, curve.precision, color=run.colour, linewidth=1.6)
        axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02))
        legend(axes, lines, (run.name for run in runs))

    ends = []
    for run, curve in zip(runs, curves, strict=True):
        half = curve.precision[curve.recall >= 0.5]
        told = f"precision {half[0]:.2f} at half of the labels" if len(half) else "below half"
        ends.append(f"{run.name}: {told}")
    best = runs[0].samples.videos.scores.shape[1]
    caption = f"The {best} best predictions of each video in one list, best first. GAP is the area below the curve."
    return picture(draw, f"Precision against recall. {'; '.join(ends)}", caption)


def calibration(runs: Sequence[Run]) -> Picture:
    """The calibration curve of each run: the share of correct predictions by score."""
    found = [measures.calibration(run.samples.videos) for run in runs]

    def draw(axes: Any) -> None:
        axes.plot([0, 1], [0, 1], color="#8b8fa3", linestyle=":", linewidth=1)
        lines = []
        for run, one in zip(runs, found, strict=True):
            lines += axes.plot(one.scores, one.shares, "o-", color=run.colour, markersize=4, linewidth=1.6)
        axes.set(xlabel="score", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1.02))
        legend(axes, lines, (run.name for run in runs))

    errors = "; ".join(f"{run.name}: {one.error:.3f}" for run, one in zip(runs, found, strict=True))
    caption = (
        "Each dot has the predictions of one tenth of the scale. Of those with a score of 0.8, eight in ten should be "
        f"right: the dotted line. Mean distance from it: {errors}."
    )
    return picture(draw, f"Calibration. Mean distance of score and share: {errors}", caption)


def classes(runs: Sequence[Run], figures: Sequence[Sequence[ClassFigure]]) -> Picture:
    """A scatter plot of AP by number of labels, with one dot per class."""

    def draw(axes: Any) -> None:
        look: dict[str, Any] = {"s": 9, "alpha": 0.45, "linewidths": 0}
        dots = []
        for run, rows in zip(runs, figures, strict=True):
            points = [row.positives for row in rows], [row.average_precision for row in rows]
            dots.append(axes.scatter(*points, color=run.colour, rasterized=len(rows) > _MANY, **look))
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:,.0f}")  # by default matplotlib shows powers of ten
        axes.xaxis.set_minor_formatter("")
        axes.set(xlabel="labels of the class", ylabel="average precision", ylim=(-0.02, 1.02))
        legend(axes, dots, (run.name for run in runs))

    caption = "Each dot is a class: its average precision (AP), and how many labels it has, on a logarithmic scale."
    counts = "; ".join(f"{run.name}: {len(rows)} classes" for run, rows in zip(runs, figures, strict=True))
    return picture(draw, f"Average precision of each class against its labels. {counts}", caption)


def average_precisions(runs: Sequence[Run], figures: Sequence[Sequence[ClassFigure]]) -> Picture:
    """A histogram of the classes by AP."""
    values = [[row.average_precision for row in rows] for rows in figures]

    def draw(axes: Any) -> None:
        _, _, bars = axes.hist(values, bins=[part / 10 for part in range(11)], color=[run.colour for run in runs])
        axes.set(xlabel="average precision", ylabel="classes", xlim=(0, 1))
        axes.yaxis.get_major_locator().set_params(integer=True)
        legend(axes, [bars] if len(runs) == 1 else list(bars), (run.name for run in runs))

    low = "; ".join(
        f"{run.name}: {sum(ap < 0.1 for ap in aps)} below 0.1, {sum(ap >= 0.9 for ap in aps)} from 0.9 on"
        for run, aps in zip(runs, values, strict=True)
    )
    return picture(
        draw,
        f"How many classes have which average precision. {low}",
        f"How many classes have an AP in each tenth of the scale. {low}.",
    )


def verticals(runs: Sequence[Run], figures: Sequence[Sequence[VerticalFigure]]) -> Picture:
    """Mean AP of each vertical's classes, as bars."""
    names = list(dict.fromkeys(row.name for rows in figures for row in rows))
    thick = 0.8 / len(runs)

    def draw(axes: Any) -> None:
        bars = []
        for index, (run, rows) in enumerate(zip(runs, figures, strict=True)):
            places = [names.index(row.name) + (index - (len(runs) - 1) / 2) * thick for row in rows]
            bars.append(axes.barh(places, [row.mean_ap for row in rows], thick * 0.9, color=run.colour))
        axes.set(xlabel="mean AP of its classes", xlim=(0, 1), ylim=(len(names) - 0.4, -0.6))
        axes.set_yticks(range(len(names)), [short(name) for name in names])
        axes.grid(visible=False, axis="y")
        legend(axes, bars, (run.name for run in runs))

    told = "; ".join(f"{row.name} {row.mean_ap:.2f}" for row in figures[0])
    height = 0.7 + len(names) * max(0.19, 0.11 * len(runs))
    caption = "Mean average precision of the classes of each vertical, the one with the most labels first."
    return picture(draw, f"Mean average precision by vertical. {runs[0].name}: {told}", caption, height)
