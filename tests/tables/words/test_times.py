"""Times in cells, and spans of time joined; the references count hundredths of a second."""

from __future__ import annotations

import datetime
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import examples

from yt8m.tables.words.times import NotATimeError, parse_time, shared_by_most, union

INTERVALS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted).map(tuple), max_size=6)


@pytest.mark.parametrize(
    ("cell", "second"),
    [
        ("12.4", 12.4),
        ("12,4", 12.4),
        (7, 7.0),
        ("1:02.5", 62.5),
        ("0:01:02,5", 62.5),
        ("125:00", 7500.0),
        (" 10:00:00 ", 36000.0),
        (datetime.time(0, 1, 2, 500_000), 62.5),
        (datetime.timedelta(seconds=62.5), 62.5),
        ("1e2", 100.0),
        *[
            ("12.4s", 12.4),
            ("12,4 sec", 12.4),
            ("500 ms", 0.5),
            ("1m02.5s", 62.5),
            ("1h 2m 3s", 3723.0),
            ("2 min", 120.0),
        ],
    ],
)
def test_times_are_seconds(cell: Any, second: float) -> None:
    assert parse_time(cell) == pytest.approx(second)


def test_frames_become_seconds_by_their_rate_but_times_with_colons_stay() -> None:
    assert parse_time("250", 25) == 10
    assert parse_time("1:02.5", 25) == 62.5
    assert parse_time("1,5") == 1.5
    with pytest.raises(NotATimeError, match="without a comma"):
        parse_time("1,200", 25)


def test_time_codes_end_in_frames_and_need_their_rate() -> None:
    assert parse_time("00:01:02:12", 25) == pytest.approx(62.48)
    assert parse_time("01:00:00;29", 29.97) == pytest.approx(3600 + 29 / 29.97)
    assert parse_time("5s", 25) == 5
    for cell, message, rate in (
        ("00:01:02:12", "--frame_rate", 0),
        ("00:01:02:25", "below 25", 25),
        ("0:61:02:01", "below 60", 25),
    ):
        with pytest.raises(NotATimeError, match=message):
            parse_time(cell, rate)


@pytest.mark.parametrize(
    "cell", ["soon", "-1", "1:75", "1:70:00", "nan", "1:2:3:4", "", "5 weeks", "ms", True, "2e9", [1]]
)
def test_what_is_no_time_is_said(cell: Any) -> None:
    with pytest.raises(NotATimeError, match=r"seconds from 0\b|below 60\b|a moment such"):
        parse_time(cell)


def _marked(intervals: list[Any]) -> np.ndarray:
    marked = np.zeros(30, bool)
    for start, end in intervals:
        marked[start:end] = True
    return marked


@given(INTERVALS)
@examples(80)
def test_a_union_covers_the_same_times_once(intervals: list[Any]) -> None:
    joined = union(intervals)
    np.testing.assert_array_equal(_marked(joined), _marked(intervals))
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(joined))


@given(st.lists(INTERVALS, min_size=1, max_size=5))
@examples(80)
def test_what_most_people_marked_is_marked(people: list[Any]) -> None:
    expected = 2 * np.sum([_marked(spans) for spans in people], axis=0) > len(people)
    found = shared_by_most(people)
    np.testing.assert_array_equal(_marked(found), expected)
    assert all(start < end for start, end in found)
