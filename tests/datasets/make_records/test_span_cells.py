"""Cells that spans cover, and what is said of spans; the reference looks at thin slices of time."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import examples

from yt8m.datasets.make_records import span_cells
from yt8m.datasets.make_records.span_cells import ClassSpan, Grid
from yt8m.errors import UsageError
from yt8m.tables.words.times import Span

_SLICES = 20  # of a frame
# Ends that lie on slices, but never cover exactly half of a cell, are told apart with certainty.
_TIMES = st.integers(0, 40 * _SLICES)
_CLASSES = st.lists(st.integers(0, 2), min_size=1, max_size=2, unique=True)
_SPANS = st.lists(st.tuples(_TIMES, _TIMES, _CLASSES), max_size=7)
_RATES, _ANNOTATED = st.sampled_from([0.5, 1.0, 25.0]), st.sampled_from(["whole", "spans"])


def _covered(intervals: list[tuple[int, int]], count: int, size: int) -> np.ndarray:
    """Whether at least half of the slices of each cell are in an interval."""
    slices = np.zeros(count * _SLICES, bool)
    for start, end in intervals:
        slices[start:end] = True
    cells = [slices[first : first + size * _SLICES] for first in range(0, len(slices), size * _SLICES)]
    return np.array([2 * cell.sum() >= len(cell) for cell in cells])


@given(_SPANS, st.integers(1, 37), st.integers(1, 6), _RATES, _ANNOTATED)
@examples(150)
def test_cells_are_those_of_thin_slices(spans: Any, count: int, size: int, rate: float, annotated: str) -> None:
    unit = 1 / (_SLICES * rate)
    given_spans = [ClassSpan(start * unit, end * unit, tuple(classes)) for start, end, classes in spans]
    found, said = Grid(size, rate, annotated).cells(given_spans, count)
    expected, everything = [], []
    for number in range(3):
        intervals = [(start, end) for start, end, classes in spans if number in classes and end > start]
        everything += intervals
        expected += [(cell * size, number) for cell in np.flatnonzero(_covered(intervals, count, size))]
    assert list(zip(found.starts.tolist(), found.classes.tolist(), strict=True)) == sorted(expected)
    seen = np.concatenate([np.zeros(0, int), *(np.arange(first, last) for first, last in found.ranges)])
    cells = np.ones(-(-count // size), bool) if annotated == "whole" else _covered(everything, count, size)
    np.testing.assert_array_equal(seen, np.flatnonzero(np.repeat(cells, size)[:count]))
    assert said[span_cells.POSITIVE] == len(expected)
    assert said[span_cells.ANNOTATED] == cells.sum()


@given(_SPANS, _SPANS, st.integers(1, 37), st.integers(1, 6), _ANNOTATED)
@examples(100)
def test_cells_that_are_denied_are_rated_unless_readers_know_them(
    spans: Any, denials: Any, count: int, size: int, annotated: str
) -> None:
    shown = [ClassSpan(start / _SLICES, end / _SLICES, tuple(classes)) for start, end, classes in spans]
    denied = [ClassSpan(start / _SLICES, end / _SLICES, (), denied=tuple(classes)) for start, end, classes in denials]
    grid = Grid(size, 1.0, annotated)
    alone, _ = grid.cells(shown, count)
    found, said = grid.cells([*shown, *denied], count)
    np.testing.assert_array_equal(found.ranges, alone.ranges)
    pairs = list(zip(found.starts.tolist(), found.classes.tolist(), strict=True))
    is_shown = dict(zip(pairs, (found.scores > 0).tolist(), strict=True))
    positives = set(zip(alone.starts.tolist(), alone.classes.tolist(), strict=True))
    assert {pair for pair, shows in is_shown.items() if shows} == positives
    is_seen = {frame for first, last in found.ranges for frame in range(first, last)}
    covers = [
        (number, _covered([(a, b) for a, b, classes in denials if number in classes and b > a], count, size))
        for number in range(3)
    ]
    cells = {(int(cell) * size, number) for number, cover in covers for cell in np.flatnonzero(cover)}
    expected = {pair for pair in cells - positives if pair[0] not in is_seen}
    assert {pair for pair, shows in is_shown.items() if not shows} == expected
    assert said[span_cells.DENIED] == len(cells - positives)
    assert said[span_cells.CONTRADICTED] == len(cells & positives)


def test_a_class_that_is_only_denied_has_no_number() -> None:
    spans = [Span(0, 2, ("weld",)), Span(3, 5, (), denied=("cut", "weld"))]
    assert span_cells.number_spans(spans, {"weld": 4}) == (ClassSpan(0, 2, (4,)), ClassSpan(3, 5, (), denied=(4,)))


@pytest.mark.parametrize(
    ("spans", "what", "count"),
    [
        ([(70.0, 80.0)], span_cells.BEYOND, 1),
        ([(55.0, 80.0)], span_cells.CLIPPED, 1),
        ([(5.0, 5.0), (7.0, 7.0)], span_cells.EMPTY, 2),
        ([(5.0, 15.0), (14.0, 20.0), (20.0, 30.0)], span_cells.OVERLAPPING, 1),
        ([(6.0, 7.0), (10.0, 20.0)], span_cells.UNSEEN, 1),
    ],
)
def test_what_is_not_as_people_meant_it_is_counted(spans: list[tuple[float, float]], what: str, count: int) -> None:
    _, said = Grid(5, 1.0, "whole").cells([ClassSpan(start, end, (0,)) for start, end in spans], 60)
    problems = {span_cells.BEYOND, span_cells.CLIPPED, span_cells.EMPTY, span_cells.OVERLAPPING, span_cells.UNSEEN}
    assert {name: number for name, number in said.items() if name in problems} == {what: count}
    assert f"{count} {what}" in list(span_cells.describe(said))


def test_cells_must_be_whole_frames() -> None:
    assert Grid.with_cells(0.2, 25.0, "whole").frames == 5
    for seconds, rate in ((0.5, 1.0), (1.0, 0.5), (5.0, 0.3)):
        with pytest.raises(UsageError, match=rf"--segment_size={seconds:g}: .* {rate:g} frames per second"):
            Grid.with_cells(seconds, rate, "whole")
