"""The tables of the report: best and worst classes, what is taken for what, where runs differ."""

from __future__ import annotations

from collections.abc import Sequence

from yt8m.tools.report.classes import ENOUGH, ClassFigure, Confusion, best_and_worst, confusions
from yt8m.tools.report.loading import Run
from yt8m.tools.report.markup import Markup, table, tag
from yt8m.tools.report.pictures import colour
from yt8m.vocabulary import Vocabulary

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


def _ranked(
    run: Run, index: int, best: Sequence[ClassFigure], worst: Sequence[ClassFigure], count: int
) -> Markup:
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
