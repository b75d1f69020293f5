"""Drawing: one matplotlib figure as an SVG image inside the page, in ink that follows the reader's theme.

The pictures of the report: training curves, precision and recall, calibration, classes, verticals.
"""

from __future__ import annotations

import base64
import importlib.util
import io
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from yt8m.commands.report import measures
from yt8m.commands.report.loading import Run, figure
from yt8m.commands.report.markup import Markup, tag
from yt8m.commands.report.measures import ClassFigure, VerticalFigure
from yt8m.errors import UsageError
from yt8m.eval_util.arrays import Floats64

# Told apart on white and on black, and by most who see fewer colours.
COLOURS = ("#3b82f6", "#f07a1a", "#12a37f", "#a35cf0", "#e8476a", "#1ba3bd", "#b58a12", "#8b8fa3")
WIDTH = 4.2  # inches, about a phone's width, so that text is not shrunk there
_INK = "#20242c"
_THEME = f"<style>svg{{--ink:{_INK}}}@media (prefers-color-scheme:dark){{svg{{--ink:#d5dae2}}}}</style>"
_SETTINGS = {
    "svg.hashsalt": "yt8m",  # the same run gives the same page, byte by byte
    "svg.fonttype": "path",
    "text.parse_math": False,  # a name may have a dollar in it
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


def need_matplotlib() -> None:
    """Refuses where the library of the pictures is missing.

    Raises:
      UsageError: names what to install.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise UsageError("the report needs matplotlib, which is not installed: pip install 'yt8m[reports]'.")


def picture(draw: Callable[[Any], None], alt: str, caption: str, height: float = 2.9) -> Markup:
    """A figure with its caption; `draw` gets matplotlib's axes."""
    data = base64.b64encode(_svg(draw, height).encode()).decode()
    image = tag("img", src=f"data:image/svg+xml;base64,{data}", alt=alt)
    return tag("figure", image, tag("figcaption", caption))


def colour(index: int) -> str:
    """That of the run `index`; they repeat where there are more runs than colours."""
    return COLOURS[index % len(COLOURS)]


def legend(axes: Any, handles: list[Any], names: list[str]) -> None:
    """A legend above the axes where there is more than one name; names as they are, `_` in front included."""
    if len(names) > 1:
        axes.figure.legend(handles, [short(name) for name in names], loc="outside upper left", ncols=2)


def short(name: str) -> str:
    """A name as a picture has room for it; the ends of paths tell more than their beginnings."""
    return name if len(name) <= 28 else f"...{name[-25:]}"


def _svg(draw: Callable[[Any], None], height: float) -> str:
    import matplotlib
    from matplotlib.figure import Figure

    file = io.StringIO()
    with matplotlib.rc_context(_SETTINGS), warnings.catch_warnings():
        # A name in a script that the font lacks is drawn as boxes; the page has it in words.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        draw(figure.add_subplot())
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = file.getvalue().replace(_INK, "var(--ink)")
    start = text.index(">", text.index("<svg")) + 1
    return text[:start] + _THEME + text[start:]


_MANY = 400  # points of a scatter beyond which they are painted as dots of an image
_TITLES = {"examples_per_second": "examples a second"}
_EVALUATED = {"GAP": "gap", "Hit@1": "hit_at_one", "PERR": "perr"}


def training(runs: Sequence[Run]) -> list[Markup]:
    """One picture for each figure that the runs logged while they trained."""
    names = dict.fromkeys(name for run in runs for name in run.curves)
    return [_curve(name, runs) for name in names]


def _curve(name: str, runs: Sequence[Run]) -> Markup:
    title = _TITLES.get(name, name)

    def draw(axes: Any) -> None:
        lines = []
        for index, run in _with_curve(name, runs):
            curve = run.curves[name]
            axes.plot(*_few(curve.steps, curve.values), color=colour(index), alpha=0.3, linewidth=0.8)
            style = "o-" if len(curve.steps) == 1 else "-"  # a line through one point shows nothing
            lines += axes.plot(
                *_few(curve.steps, curve.smoothed()), style, color=colour(index), linewidth=1.6, markersize=4
            )
            value = figure(run, _EVALUATED.get(name, ""))
            if value is not None:
                axes.plot(figure(run, "global_step"), value, "D", color=colour(index), markersize=5)
        axes.set(xlabel="step", ylabel=short(title))
        legend(axes, lines, [run.name for _, run in _with_curve(name, runs)])

    ends = "; ".join(f"{run.name}: {run.curves[name].smoothed()[-1]:.4g}" for _, run in _with_curve(name, runs))
    told = " The diamond is the evaluation." if name in _EVALUATED else ""
    return picture(
        draw,
        f"{title} over the steps of the training, at its end {ends}",
        f"{title} over the steps: of single batches, and their running mean.{told}",
    )


def _with_curve(name: str, runs: Sequence[Run]) -> list[tuple[int, Run]]:
    return [(index, run) for index, run in enumerate(runs) if name in run.curves]


def _few(steps: Floats64, values: Floats64, most: int = 500) -> tuple[Floats64, Floats64]:
    """No more points than a picture shows."""
    every = -(-len(steps) // most)
    return steps[::every], values[::every]


def precision_recall(runs: Sequence[Run]) -> Markup:
    """Precision against recall of each run."""

    def draw(axes: Any) -> None:
        lines = []
        for index, run in enumerate(runs):
            curve = measures.thinned(measures.precision_recall(run.kept.videos))
            lines += axes.plot(curve.recall, curve.precision, color=colour(index), linewidth=1.6)
        axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1), ylim=(0, 1.02))
        legend(axes, lines, [run.name for run in runs])

    ends = []
    for run in runs:
        curve = measures.precision_recall(run.kept.videos)
        half = curve.precision[curve.recall >= 0.5]
        ends.append(
            f"{run.name}: precision {half[0]:.2f} at half of the labels" if len(half) else f"{run.name}: below half"
        )
    caption = "All predictions of all videos in one list, best first. GAP is the area below the curve."
    return picture(draw, f"Precision against recall. {'; '.join(ends)}", caption)


def calibration(runs: Sequence[Run]) -> Markup:
    """Scores against the share of predictions that are right."""
    found = [measures.calibration(run.kept.videos) for run in runs]

    def draw(axes: Any) -> None:
        axes.plot([0, 1], [0, 1], color="#8b8fa3", linestyle=":", linewidth=1)
        lines = []
        for index, one in enumerate(found):
            lines += axes.plot(one.scores, one.shares, "o-", color=colour(index), markersize=4, linewidth=1.6)
        axes.set(xlabel="score", ylabel="share that is right", xlim=(0, 1), ylim=(0, 1.02))
        legend(axes, lines, [run.name for run in runs])

    errors = "; ".join(f"{run.name}: {one.error:.3f}" for run, one in zip(runs, found, strict=True))
    caption = (
        "Of predictions with a score of 0.8, eight in ten should be right: the dotted line. "
        f"Mean distance from it: {errors}."
    )
    return picture(draw, f"Calibration. Mean distance of score and share: {errors}", caption)


def classes(runs: Sequence[Run], figures: Sequence[Sequence[ClassFigure]]) -> Markup:
    """AP of each class against how many labels it has."""

    def draw(axes: Any) -> None:
        dots = []
        for index, rows in enumerate(figures):
            dots.append(
                axes.scatter(
                    [row.positives for row in rows],
                    [row.average_precision for row in rows],
                    s=9,
                    alpha=0.45,
                    linewidths=0,
                    color=colour(index),
                    rasterized=len(rows) > _MANY,
                )
            )
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:,.0f}")  # the usual one is a formula
        axes.xaxis.set_minor_formatter("")
        axes.set(xlabel="labels of the class", ylabel="average precision", ylim=(-0.02, 1.02))
        legend(axes, dots, [run.name for run in runs])

    counts = "; ".join(f"{run.name}: {len(rows)} classes" for run, rows in zip(runs, figures, strict=True))
    return picture(draw, f"Average precision of each class against its labels. {counts}", "Each dot is a class.")


def average_precisions(runs: Sequence[Run], figures: Sequence[Sequence[ClassFigure]]) -> Markup:
    """How many classes have which AP."""

    def draw(axes: Any) -> None:
        values = [[row.average_precision for row in rows] for rows in figures]
        paint = [colour(index) for index in range(len(runs))]
        _, _, bars = axes.hist(values, bins=[part / 10 for part in range(11)], color=paint)
        axes.set(xlabel="average precision", ylabel="classes", xlim=(0, 1))
        axes.yaxis.get_major_locator().set_params(integer=True)
        legend(axes, [bars] if len(runs) == 1 else list(bars), [run.name for run in runs])

    low = "; ".join(
        f"{run.name}: {sum(row.average_precision < 0.1 for row in rows)} below 0.1, "
        f"{sum(row.average_precision >= 0.9 for row in rows)} from 0.9 on"
        for run, rows in zip(runs, figures, strict=True)
    )
    return picture(draw, f"How many classes have which average precision. {low}", f"Classes by their AP. {low}.")


def verticals(runs: Sequence[Run], figures: Sequence[Sequence[VerticalFigure]]) -> Markup:
    """Mean AP of each vertical's classes, as bars."""
    names = list(dict.fromkeys(row.name for rows in figures for row in rows))
    thick = 0.8 / len(runs)

    def draw(axes: Any) -> None:
        bars = []
        for index, rows in enumerate(figures):
            places = [names.index(row.name) + (index - (len(runs) - 1) / 2) * thick for row in rows]
            bars.append(axes.barh(places, [row.mean_ap for row in rows], thick * 0.9, color=colour(index)))
        axes.set(xlabel="mean AP of its classes", xlim=(0, 1), ylim=(len(names) - 0.4, -0.6))
        axes.set_yticks(range(len(names)), [short(name) for name in names])
        axes.grid(visible=False, axis="y")
        legend(axes, bars, [run.name for run in runs])

    told = "; ".join(f"{row.name} {row.mean_ap:.2f}" for row in figures[0])
    height = 0.7 + len(names) * max(0.19, 0.11 * len(runs))
    caption = "Mean average precision of the classes of each vertical, the one with the most labels first."
    return picture(draw, f"Mean average precision by vertical. {runs[0].name}: {told}", caption, height)
