"""AVA's rows: labels of whole videos, or a span for each second; boxes are left out."""

from __future__ import annotations

import pathlib

import pytest
from span_tables import spans_of
from table_files import read

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
    assert "AVA, whose boxes are left out" in "; ".join(understand("--table", str(path), TableFlags()).describe())


@pytest.mark.parametrize("header", ["", HEADER])
def test_spans_of_a_second(header: str, tmp_path: pathlib.Path) -> None:
    spans = spans_of(tmp_path, header + ROWS)
    assert spans["0f39OWEqJ24"] == [(904, 905, "12"), (905, 906, "9")]
    assert len(spans["-5KQ66BBWC4"]) == 4


def test_other_tables_of_eight_columns_keep_their_meaning(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("video,timestamp,x1,y1,x2,y2,label\na,1,1,2,3,4,cat\nb,1,1,2,3,4,dog\nc,1,1,2,3,4,cat\n")
    assert read(path) == {"a": ["cat"], "b": ["dog"], "c": ["cat"]}
