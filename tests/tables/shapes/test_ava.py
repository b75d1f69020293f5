"""AVA's rows: labels of whole videos, or a span for each second; boxes are left out."""

from __future__ import annotations

import pathlib

import pytest
from span_tables import spans_of
from table_files import read

from yt8m.errors import UsageError
from yt8m.tables.understood import TableFlags, understand

HEADER = "video,timestamp,x1,y1,x2,y2,action_id,person_id\n"
ROWS = (
    "-5KQ66BBWC4,0902,0.077,0.151,0.283,0.811,80,1\n-5KQ66BBWC4,0902,0.077,0.151,0.283,0.811,9,1\n"
    "-5KQ66BBWC4,0902,0.226,0.032,0.366,0.497,12,0\n-5KQ66BBWC4,0903,0.077,0.151,0.283,0.811,80,1\n"
    "0f39OWEqJ24,0904,0.181,0.002,0.443,0.971,12,2\n0f39OWEqJ24,0905,0.181,0.002,0.443,0.971,9,2\n"
)


@pytest.mark.parametrize("header", ["", HEADER, HEADER.replace("video,", "video_id,")])
def test_labels_of_whole_videos(header: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ava.csv"
    path.write_text(header + ROWS)
    assert read(path) == {"-5KQ66BBWC4": ["12", "80", "9"], "0f39OWEqJ24": ["12", "9"]}
    assert "boxes are left out" in "; ".join(understand("--table", str(path), TableFlags()).describe())


@pytest.mark.parametrize("header", ["", HEADER])
def test_spans_of_a_second(header: str, tmp_path: pathlib.Path) -> None:
    spans = spans_of(tmp_path, header + ROWS)
    assert spans["0f39OWEqJ24"] == [(904, 905, "12"), (905, 906, "9")]
    assert len(spans["-5KQ66BBWC4"]) == 4


def test_other_tables_of_eight_columns_keep_their_meaning(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("video,timestamp,x1,y1,x2,y2,label\na,1,1,2,3,4,cat\nb,1,1,2,3,4,dog\nc,1,1,2,3,4,cat\n")
    assert read(path) == {"a": ["cat"], "b": ["dog"], "c": ["cat"]}


def beside(name: str, cells: str, end: str = "") -> str:
    """AVA's rows with words as actions, a column for the cells, and no people."""
    rows = [line.split(",")[:6] for line in ROWS.splitlines()]
    texts = [",".join([*row, "abc"[n % 3], cell]) for n, (row, cell) in enumerate(zip(rows, cells, strict=True))]
    return "\n".join([f"video,timestamp,x1,y1,x2,y2,{end or 'action'},{name}", *texts, ""])


def test_other_columns_stay(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(beside("split", "ttttvv").replace(",t\n", ",train\n").replace(",v\n", ",val\n"))
    assert "split" in understand("--table", str(path), TableFlags()).columns
    assert "split" in understand("--table", str(path), TableFlags(columns=("split=split",))).columns
    path.write_text(beside("label", "xyzxyz", "action_id"))
    assert read(path) == {"-5KQ66BBWC4": ["x", "y", "z"], "0f39OWEqJ24": ["y", "z"]}
    assert read(path, columns=("labels=label",)) == read(path)
    path.write_text(beside("score", "123456"))
    assert read(path, columns=("unused=score",)) == {"-5KQ66BBWC4": ["a", "b", "c"], "0f39OWEqJ24": ["b", "c"]}
    path.write_text(beside("present", "110110"))
    assert read(path) == {"-5KQ66BBWC4": ["a", "b"], "0f39OWEqJ24": ["b"]}


def test_spans_with_ends_of_their_own_are_none_of_ava(tmp_path: pathlib.Path) -> None:
    with pytest.raises(AssertionError, match=r"\bend, 9, .*before .*start, 902\b"):
        spans_of(tmp_path, beside("end", "999999"))
    assert len(spans_of(tmp_path, beside("split", "tttttt"))["0f39OWEqJ24"]) == 2


def test_shares_that_grow_are_no_times_and_boxes(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("".join(f"v{n:02},0.{n % 5},0.{10 + n % 5},0.2,0.5,0.9,{n % 3}\n" for n in range(40)))
    with pytest.raises(UsageError, match="has no column 'labels'"):
        read(path)
