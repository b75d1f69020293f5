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


def test_birdnet_names_the_file_by_its_path(tmp_path: pathlib.Path) -> None:
    text = text_of(ROWS, True).replace("Begin File", "Begin Path").replace("Species", "Common Name")
    assert spans_of(tmp_path, text, "t.txt") == EXPECTED


def test_the_scores_of_birdnet_are_chosen_away(tmp_path: pathlib.Path) -> None:
    header = "Start (s),End (s),Scientific name,Common name,Confidence,File"
    text = f"{header}\n0,3,Parus major,Great Tit,0.71,a.wav\n3,6,Strix aluco,Owl,0.3,a.wav\n"
    with pytest.raises(UsageError, match=r'"Confidence" .*may say which labels.*--columns=unused=Conf'):
        spans_of(tmp_path, text)
    spans = [(0, 3, "Great Tit"), (3, 6, "Owl")]
    assert spans_of(tmp_path, text, columns=("unused=Confidence", "labels=Common name")) == {"a.wav": spans}
    kaleidoscope = "IN FILE,OFFSET,DURATION,common_name\na.wav,0,3,Great Tit\na.wav,3,3,Owl\n"
    assert spans_of(tmp_path, kaleidoscope, columns=("labels=common_name",)) == {"a.wav": spans}
