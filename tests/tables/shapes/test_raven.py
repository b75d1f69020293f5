"""Raven's selection tables: times over several files, and the offset in each."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import pytest
from span_tables import spans_of

from yt8m.errors import UsageError

HEADER = "Selection\tBegin Time (s)\tEnd Time (s)\tBegin File\tSpecies"
ROWS = [(0.5, 2.25, "a.wav", "owl", 0.5), (10.5, 12, "a.wav", "wren", 10.5), (3600.5, 3602, "b.wav", "owl", 0.5)]
EXPECTED = {"a.wav": [(0.5, 2.25, "owl"), (10.5, 12, "wren")], "b.wav": [(0.5, 2, "owl")]}


def text_of(rows: Sequence[tuple[object, ...]], offsets: bool) -> str:
    lines = [[n + 1, *(row if offsets else row[:4])] for n, row in enumerate(rows)]
    header = HEADER + ("\tFile Offset (s)" if offsets else "")
    return "\n".join([header, *("\t".join(map(str, line)) for line in lines), ""])


def test_offsets_in_files(tmp_path: pathlib.Path) -> None:
    assert spans_of(tmp_path, text_of(ROWS, True), "t.txt") == EXPECTED
    assert spans_of(tmp_path, text_of(ROWS[2:], True), "t.txt") == {"b.wav": [(0.5, 2, "owl")]}


def test_times_of_several_files_without_offsets_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=r'Export the measurement "File Offset \(s\)" too; or say --columns='):
        spans_of(tmp_path, text_of(ROWS, False), "t.txt")
    chosen = ("start=Begin Time (s)", "end=End Time (s)")
    assert spans_of(tmp_path, text_of(ROWS, False), "t.txt", columns=chosen)["b.wav"] == [(3600.5, 3602, "owl")]
    rows = [*ROWS[:2], (20, 21, "a.wav", "owl")]
    assert spans_of(tmp_path, text_of(rows, False), "t.txt") == {"a.wav": [*EXPECTED["a.wav"], (20, 21, "owl")]}


def test_times_that_begin_again_in_each_file(tmp_path: pathlib.Path) -> None:
    rows = [*ROWS[:2], (1, 2, "b.wav", "owl")]
    assert spans_of(tmp_path, text_of(rows, False), "t.txt") == EXPECTED | {"b.wav": [(1, 2, "owl")]}
