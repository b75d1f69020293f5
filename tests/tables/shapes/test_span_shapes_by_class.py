"""Tables with a start and an end for each class."""

from __future__ import annotations

import pathlib

import pytest
from span_tables import spans_of

_EXPECTED = {"a": [(1.0, 3.0, "weld"), (4.0, 9.0, "cut")], "b": [(2.0, 5.0, "weld")], "c": []}


@pytest.mark.parametrize(
    "header",
    [
        "weld_start,weld_end,cut_start,cut_end",
        "start weld,end weld,start cut,end cut",
        "weld.from,weld.to,cut.from,cut.to",
    ],
)
def test_each_class_has_its_times(header: str, tmp_path: pathlib.Path) -> None:
    assert spans_of(tmp_path, f"video,{header}\na,1,3,4,9\nb,2,5,,\nc,,,,\n") == _EXPECTED


def test_times_beside_labels_are_those_of_the_labels(tmp_path: pathlib.Path) -> None:
    text = "video,label,event_start,event_end\na,weld,1,3\na,cut,4,9\nb,weld,2,5\nc,,,\n"
    assert spans_of(tmp_path, text) == _EXPECTED
