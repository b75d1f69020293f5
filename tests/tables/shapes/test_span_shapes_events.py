"""Events that start and stop, as BORIS exports them."""

from __future__ import annotations

import pathlib

import pytest
from span_tables import spans_of

from yt8m.errors import UsageError

_HEADER = "Observation id,Media file,Total length,FPS,Subject,Behavior,Behavioral category,Status,Time\n"
_EVENTS = [
    "a,a.mp4,60,25,s,weld,,START,1.5",
    "a,a.mp4,60,25,s,cut,,START,2.5",
    "a,a.mp4,60,25,s,weld,,STOP,3.5",
    "a,a.mp4,60,25,s,cut,,STOP,4.5",
    "b,b.mp4,60,25,s,cut,,START,4.5",
    "b,b.mp4,60,25,s,cut,,STOP,9",
]


def test_events_become_spans(tmp_path: pathlib.Path) -> None:
    spans = spans_of(tmp_path, _HEADER + "\n".join(_EVENTS))
    assert spans == {"a": [(1.5, 3.5, "weld"), (2.5, 4.5, "cut")], "b": [(4.5, 9.0, "cut")]}


def test_columns_that_differ_in_each_row_name_no_event(tmp_path: pathlib.Path) -> None:
    text = (
        "Observation id,Media file name,Media duration (s),Subject,Behavior,Behavior type,Time,Image index\n"
        "a,a.mp4,60,s,weld,START,1.5,37\na,a.mp4,60,s,weld,STOP,3.5,87\na,a.mp4,60,s,poke,POINT,5.5,112\n"
    )
    assert spans_of(tmp_path, text) == {"a": [(1.5, 3.5, "weld"), (5.5, 5.5, "poke")]}


@pytest.mark.parametrize(
    ("left_out", "message"),
    [(0, r"row 2 .line 3.: .*weld stops.*not .*started"), (3, r"row 2 .line 3.: .*cut starts.*never")],
)
def test_events_without_a_partner_are_refused(left_out: int, message: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=message):
        spans_of(tmp_path, _HEADER + "\n".join(event for place, event in enumerate(_EVENTS) if place != left_out))


def test_an_event_that_starts_twice_is_refused(tmp_path: pathlib.Path) -> None:
    events = [_EVENTS[0], "a,a.mp4,60,25,s,weld,,START,2", *_EVENTS[1:]]
    with pytest.raises(UsageError, match=r"row 2 .line 3.: .*\ba, s, weld .*starts again"):
        spans_of(tmp_path, _HEADER + "\n".join(events))
