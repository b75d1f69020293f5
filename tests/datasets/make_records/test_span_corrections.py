"""Decisions on spans: the time that they add and take out, the records, and the tables that are refused."""

from __future__ import annotations

import pathlib
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from own_clips import read, write_table

from yt8m.command_line import cli
from yt8m.datasets.make_records.human_labels import Decision, read_decisions
from yt8m.datasets.make_records.span_cells import ClassSpan
from yt8m.datasets.make_records.span_corrections import corrected
from yt8m.errors import RunError, UsageError
from yt8m.records import manifest, vocabulary

_SECONDS = 12
_TIMES = (
    st.tuples(st.integers(0, _SECONDS), st.integers(0, _SECONDS)).map(sorted).filter(lambda pair: pair[0] < pair[1])
)
_SPANS = st.lists(
    st.builds(lambda times, classes: ClassSpan(*times, tuple(classes)), _TIMES, st.sets(st.integers(0, 2)))
)
_DECISIONS = st.lists(
    st.builds(
        lambda times, number, is_missing: Decision(
            1, b"v", str(number), "missing" if is_missing else "wrong", True, (float(times[0]), float(times[1]))
        ),
        _TIMES, st.integers(0, 2), st.booleans(),
    )
)  # fmt: skip


def shown(spans: object) -> np.ndarray:
    """bool [seconds, classes]: whether spans show each class in each second."""
    marks = np.zeros((_SECONDS, 3), bool)
    for span in spans:  # type: ignore[attr-defined]
        marks[int(span.start) : int(span.end), list(span.classes)] = True
    return marks


@given(_SPANS, _DECISIONS)
def test_decisions_change_the_seconds_that_they_name(spans: list[ClassSpan], decisions: list[Decision]) -> None:
    expected = shown(spans)
    for decision in decisions:
        assert decision.span is not None
        expected[int(decision.span[0]) : int(decision.span[1]), int(decision.label)] = decision.kind == "missing"
    result = corrected(spans, decisions, int)
    np.testing.assert_array_equal(shown(result.spans), expected)
    seen = np.zeros(_SECONDS, bool)
    for span in spans:
        seen[int(span.start) : int(span.end)] = True
    still_seen = np.zeros(_SECONDS, bool)
    for span in result.spans:
        still_seen[int(span.start) : int(span.end)] = True
    assert (still_seen | ~seen).all(), "what people have looked at stays so"


HEADER = "rank,video,class,kind,chance,start,end,decision"


@pytest.fixture
def table(tmp_path: pathlib.Path) -> str:
    """A table of spans in two videos of 60 frames."""
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32))
    rows = [("a", "a.npy", "weld", 10, 30, "train"), ("b", "b.npy", "cut", 0, 20, "train")]
    return write_table(tmp_path / "spans.csv", rows, "video,path,label,start,end,split")


def make(table: str, *decisions: str, flags: tuple[str, ...] = ("--rows=spans",), level: str = "frame") -> pathlib.Path:
    """Makes records with decisions; returns the folder of a level."""
    folder = pathlib.Path(table).parent
    (folder / "decisions.csv").write_text("\n".join([HEADER, *decisions]) + "\n")
    words = [f"--table={table}", f"--out={folder / 'out'}", f"--level={level}", "--shards=1", "--overwrite", *flags]
    assert cli.call("make-records", [*words, f"--corrections={folder / 'decisions.csv'}"]) == 0
    return folder / "out" / level


def cells(folder: pathlib.Path) -> dict[str, set[tuple[int, str]]]:
    """{video: the (first frame, class) of its positive cells}."""
    names = vocabulary.read(str(folder.parent / "vocabulary.csv")).names
    return {
        video: {
            (start, names[number])
            for start, number in zip(record.values("segment_start_times"), record.values("segment_labels"), strict=True)
        }
        for video, (_, record) in read(folder).items()
    }


def test_records_have_the_decided_cells_and_labels(table: str) -> None:
    rows = [
        "1,a,weld,wrong,.9,15,0:25,yes",
        "2,a,cut,missing,.8,40,50,yes",
        "3,b,cut,wrong,.7,,,yes",
        "4,b,weld,missing,.7,0,5,no",
    ]
    folder = make(table, *rows)
    assert cells(folder) == {"a": {(10, "weld"), (25, "weld"), (40, "cut"), (45, "cut")}, "b": set()}
    videos = {video: record.values("labels") for video, (_, record) in read(folder).items()}
    assert (sorted(videos["a"]), videos["b"]) == ([0, 1], [])
    entry = manifest.read(str(folder / "train" / "manifest.json")).corrections
    assert (entry["labels added"], entry["labels removed"]) == (1, 2)
    video_level = {
        video: record.values("labels") for video, (_, record) in read(make(table, *rows, level="video")).items()
    }
    assert (sorted(video_level["a"]), video_level["b"]) == ([0, 1], [])


def test_what_is_taken_out_stays_annotated(table: str) -> None:
    folder = make(table, "1,b,cut,wrong,.9,5,10,yes", flags=("--rows=spans", "--annotated=spans"))
    found = {video: record for video, (_, record) in read(folder).items()}
    assert found["b"].values("segment_start_times") == [0, 10, 15]
    assert (found["b"].values("annotated_start_times"), found["b"].values("annotated_end_times")) == ([0], [20])


@pytest.mark.parametrize(
    ("row", "flags", "message"),
    [
        ("1,a,weld,wrong,.9,15,25,yes", ("--rows=videos", "--columns=start=,end="), "line 2.*part of the video"),
        ("1,a,weld,missing,.9,,,yes", ("--rows=spans",), r"line 2.*needs .*start and .*end"),
        ("1,a,weld,wrong,.9,25,15,yes", ("--rows=spans",), r"line 2.*end, 15, .*start, 25"),
        ("1,a,weld,wrong,.9,soon,15,yes", ("--rows=spans",), "line 2.*'soon'"),
        ("1,a,wel,missing,.9,0,15,yes", ("--rows=spans",), r"'wel' is not.*\b2 classes"),
        ("1,a,cut,missing,.9,0,9,yes\n2,a,cut,wrong,.9,5,15,yes", ("--rows=spans",), "line 3.*contradicts.*line 2"),
    ],
)  # fmt: skip
def test_decisions_that_cannot_be_applied(row: str, flags: tuple[str, ...], message: str, table: str) -> None:
    with pytest.raises((UsageError, RunError), match=message):
        make(table, row, flags=flags)


def test_decisions_on_other_times_do_not_contradict(table: str) -> None:
    folder = make(table, "1,b,cut,wrong,.9,0,5,yes", "2,b,cut,missing,.9,30,35,yes", "3,b,cut,wrong,.9,10,15,no")
    assert cells(folder)["b"] == {(start, "cut") for start in (5, 10, 15, 30)}


def test_decisions_on_spans_that_change_nothing_are_said(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    make(table, "1,a,weld,wrong,.9,40,50,yes", "2,a,weld,missing,.8,12,20,yes", "3,b,cut,wrong,.9,15,25,yes")
    text = capsys.readouterr().err
    assert "2 decisions of --corrections=" in text
    assert re.search("line 2: 'weld' of 'a' .*wrong.*not have it", text)
    make(table, "1,b,cut,wrong,.9,15,25,yes")
    assert "changed nothing" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("names", "times"),
    [
        (("start", "end"), ("5", "9.5")),
        (("start_ms", "end_ms"), ("5000", "9500")),
        (("start_min", "end_min"), ("0:05", "0:09.5")),
    ],
)
def test_times_of_decisions_have_the_unit_of_their_columns(
    names: tuple[str, str], times: tuple[str, str], tmp_path: pathlib.Path
) -> None:
    path = write_table(
        tmp_path / "d.csv",
        [["a", "cut", "missing", *times, "yes"]],
        ",".join(["video", "class", "kind", *names, "decision"]),
    )
    assert [decision.span for decision in read_decisions(str(path))] == [(5.0, 9.5)]
