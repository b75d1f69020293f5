"""The tables of the report: best and worst classes, what is taken for what, where runs differ.

The page: one HTML file with everything in it, that asks for nothing from outside and runs no script.
"""

from __future__ import annotations

import importlib.resources
from collections.abc import Sequence
from typing import Any

from yt8m.commands.report import charts
from yt8m.commands.report.charts import colour
from yt8m.commands.report.loading import Run, difference_interval, figure, interval_of, same_videos
from yt8m.commands.report.markup import Markup, joined, table, tag
from yt8m.commands.report.measures import (
    ENOUGH,
    ClassFigure,
    Confusion,
    best_and_worst,
    class_figures,
    confusions,
    verticals,
)
from yt8m.records.vocabulary import Vocabulary

_ROWS = 10


def classes(
    runs: Sequence[Run], by_class: Sequence[Sequence[ClassFigure]], names: Sequence[Vocabulary]
) -> list[Markup]:
    """The tables of all runs, with their headings."""
    ranked = [best_and_worst(rows, _ROWS) for rows in by_class]
    least = ranked[0][2]
    only = f" Only classes with at least {least} labels are listed." if least > 1 else ""
    parts = [
        tag("h2", "Best and worst classes"),
        tag("p", f"By average precision, with how many of the videos have the class.{only}", class_="soft"),
        tag(
            "div",
            *(_ranked(run, index, *ranked[index][:2], len(runs)) for index, run in enumerate(runs)),
            class_="grid",
        ),
    ]
    if len(runs) > 1:
        parts += _where_they_differ(runs, by_class)
    cards = (_confused(run, index, names[index], len(runs)) for index, run in enumerate(runs))
    told = (
        "Videos that have the first class and got the second, which they do not have, in its place: among "
        "their n best predictions, n being the number of their labels. The share is that of all videos with "
        "the first class."
    )
    return [*parts, tag("h2", "Confusions"), tag("p", told, class_="soft"), tag("div", *cards, class_="grid")]


def _heading(run: Run, index: int, count: int) -> list[Markup]:
    """Whose table it is, where there are several runs."""
    swatch = tag("span", class_="swatch", style=f"background:{colour(index)}")
    return [tag("h3", swatch, tag("span", run.name))] if count > 1 else []


def _ranked(run: Run, index: int, best: Sequence[ClassFigure], worst: Sequence[ClassFigure], count: int) -> Markup:
    def rows(found: Sequence[ClassFigure]) -> list[tuple[object, ...]]:
        return [(_class(one), f"{one.positives:,}", f"{one.average_precision:.3f}") for one in found]

    tables = [
        tag("div", table((title, "labels", "AP"), rows(found), numbers=2), class_="card")
        for title, found in (("best", best), ("worst", worst))
    ]
    heading = _heading(run, index, count)
    if not heading:  # one run: both side by side, as cells of the grid
        return Markup("".join(tables))
    return tag("div", *heading, *tables, class_="stack")


def _class(one: ClassFigure) -> Markup:
    known = f"{one.vertical}, {one.number}" if one.vertical else ""
    return tag("span", one.name, " ", tag("span", known, class_="soft small"))


def _where_they_differ(runs: Sequence[Run], by_class: Sequence[Sequence[ClassFigure]]) -> list[Markup]:
    """The classes whose AP is furthest from that of the first run, for each other run."""
    first = {one.number: one for one in by_class[0]}
    cards = []
    for index, (run, rows) in enumerate(zip(runs, by_class, strict=True)):
        both = [(one, first[one.number]) for one in rows if one.number in first]
        often = [pair for pair in both if pair[0].positives >= ENOUGH] or both
        often.sort(key=lambda pair: -abs(pair[0].average_precision - pair[1].average_precision))
        lines = [
            (_class(ours), f"{theirs.average_precision:.3f}", f"{ours.average_precision:.3f}")
            for ours, theirs in often[:_ROWS]
        ]
        if index:
            body = table(("class", "AP of the first", "AP"), lines, numbers=2)
            cards.append(tag("div", *_heading(run, index, len(runs)), body, class_="card"))
    heading = tag("h2", f"Classes that differ most from {runs[0].name}")
    return [heading, tag("div", *cards, class_="grid")]


def _confused(run: Run, index: int, names: Vocabulary, count: int) -> Markup:
    found = confusions(run.kept.videos, run.kept.num_classes, _ROWS + 5)
    lines = [(_pair(one, names), f"{one.videos:,}", f"{100 * one.share:.0f} %") for one in found]
    body = table(("has, but got", "videos", "share"), lines, numbers=2)
    return tag("div", *_heading(run, index, count), body if found else tag("p", "None."), class_="card")


def _pair(one: Confusion, names: Vocabulary) -> Markup:
    return tag("span", names.name(one.missed), tag("span", " → ", class_="soft"), names.name(one.taken))


FIGURES = {"gap": "GAP", "hit_at_one": "Hit@1", "perr": "PERR", "map": "mAP"}
# Even if a name got through unescaped, nothing could be loaded or run.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"


def page(runs: Sequence[Run], names: Sequence[Vocabulary]) -> str:
    """The HTML of one run, or of several side by side; `names` has the classes of each run."""
    title = f"Report: {', '.join(run.name for run in runs)}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("title", title),
        tag("style", Markup((importlib.resources.files("yt8m") / "data" / "report.css").read_text("utf-8"))),
    )
    body = tag("body", tag("main", tag("h1", title), *_sections(runs, names)))
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _sections(runs: Sequence[Run], names: Sequence[Vocabulary]) -> list[Markup]:
    by_class = [class_figures(run.kept.figures, known) for run, known in zip(runs, names, strict=True)]
    parts = [
        tag("div", *(_card(index, run) for index, run in enumerate(runs)), class_="grid"),
        _about_intervals(runs),
        *([_differences(runs)] if len(runs) > 1 else []),
        tag("h2", "Training"),
        tag("div", *charts.training(runs), class_="grid")
        if any(run.curves for run in runs)
        else tag("p", "There is no metrics.jsonl with the curves of the training.", class_="soft"),
        tag("h2", "Predictions"),
        tag("div", charts.precision_recall(runs), charts.calibration(runs), class_="grid"),
    ]
    if any(by_class):
        left = [charts.classes(runs, by_class), charts.average_precisions(runs, by_class)]
        figures = [verticals(rows) for rows in by_class]
        bars = [charts.verticals(runs, figures)] if any(figures) else []
        parts += [tag("h2", "Classes"), tag("div", tag("div", *left, class_="grid"), *bars, class_="grid")]
        parts += classes(runs, by_class, names)
    return parts


def _card(index: int, run: Run) -> Markup:
    """A run's figures, each with its interval on a line from 0 to 1."""
    told = f"{figure(run, 'model')}, step {figure(run, 'global_step'):,}, {figure(run, 'num_examples'):,} videos"
    rows = [_figure(title, run, key, colour(index)) for key, title in FIGURES.items()]
    more = [("loss", figure(run, "loss")), ("MAP@100,000 of rated segments", figure(run, "map_at_n"))]
    facts = "; ".join(f"{name} {value:.4g}" for name, value in more if value is not None)
    return tag(
        "section",
        tag("h3", tag("span", class_="swatch", style=f"background:{colour(index)}"), tag("span", run.name)),
        tag("p", told, class_="soft small"),
        tag("div", *rows, class_="figures"),
        tag("p", facts, class_="soft small"),
        _details(run),
        class_="card",
    )


def _figure(name: str, run: Run, key: str, paint: str) -> Markup:
    value = figure(run, key)
    if value is None:
        return tag("div", tag("div", name, class_="soft small"), tag("div", "not defined", class_="value"))
    bounds = interval_of(run, key)
    left, right = (100 * bound for bound in bounds)
    bar = f"left:{left:.2f}%;width:{right - left:.2f}%;background:{paint}"
    return tag(
        "div",
        tag("div", name, class_="soft small"),
        tag("div", f"{value:.4f}", class_="value"),
        tag("div", tag("i", style=bar), class_="track"),
        tag("div", f"{bounds.low:.4f} to {bounds.high:.4f}", class_="soft small"),
    )


def _details(run: Run) -> Markup:
    facts: dict[str, Any] = {"folder": run.folder, "checkpoint": figure(run, "checkpoint")}
    facts |= figure(run, "versions") or {}
    rows = table(("", ""), facts.items())
    return tag("details", tag("summary", "where it comes from", class_="soft small"), rows)


def _about_intervals(runs: Sequence[Run]) -> Markup:
    kept = runs[0].kept
    resamples = len(next(iter(runs[0].resampled.values())))
    told = (
        "The range below each figure is its 95 % bootstrap interval, "
        f"from {resamples} sets of videos drawn with replacement."
    )
    if kept.seen > len(kept.videos):
        told += (
            f" Those are of a sample of {len(kept.videos):,} of the {kept.seen:,} videos, and so are the "
            "curves of the predictions and the confusions. The figures are those of all videos."
        )
    return tag("p", told, class_="soft small", style="margin-top:.75rem")


def _differences(runs: Sequence[Run]) -> Markup:
    """How far the others are from the first; on the same videos, resample by resample."""
    rows = [
        (f"{run.name}: {title}", *_difference(runs[0], run, key))
        for run in runs[1:]
        for key, title in FIGURES.items()
        if figure(run, key) is not None and figure(runs[0], key) is not None
    ]
    heading = tag("h2", f"Difference from {runs[0].name}")
    body = table(("figure", "difference", "95 % interval"), rows, numbers=2)
    told = "An interval without 0 in it says that the difference is not chance of the videos."
    return joined([heading, tag("div", body, tag("p", told, class_="soft small"), class_="card")])


def _difference(first: Run, other: Run, key: str) -> tuple[str, str]:
    difference = f"{figure(other, key) - figure(first, key):+.4f}"
    if not same_videos(first, other):
        return difference, "other videos"
    low, high = difference_interval(first, other, key)
    return difference, f"{low:+.4f} to {high:+.4f}"
