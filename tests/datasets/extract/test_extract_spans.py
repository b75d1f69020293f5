"""`yt8m extract --rows=spans`: the spans of videos, stored with their frames, also while ranges are still learned."""

from __future__ import annotations

import pathlib

import made_videos
import pytest
from own_clips import read

from yt8m.command_line import cli
from yt8m.records import manifest


@pytest.mark.parametrize("ranges", ["floats", "learned"])
def test_spans_are_stored_with_the_frames_alone(ranges: str, tmp_path: pathlib.Path) -> None:
    made_videos.write(tmp_path / "a.mp4", made_videos.grey, None, 8.0)
    table = "path,label,start,end,split\na.mp4,x,2,4.5,train\na.mp4,y,0:03,0:20,train\n"
    (tmp_path / "spans.csv").write_text(table)
    words = [f"--videos={tmp_path / 'spans.csv'}", f"--out={tmp_path / 'data'}", "--rows=spans", "--segment_size=2"]
    assert cli.call("extract", [*words, f"--ranges={ranges}", "--extractors=own_extractors:Colours", "--jobs=1"]) == 0
    ((_, record),) = read(tmp_path / "data" / "frame").values()
    cells = zip(record.values("segment_start_times"), record.values("segment_labels"), strict=True)
    assert sorted(cells) == [(2, 0), (2, 1), (4, 1), (6, 1)]
    assert record.values("annotated_end_times") == [8]
    data = manifest.read(str(tmp_path / "data" / "frame" / "train" / "manifest.json")).data
    assert data is not None
    assert (data.segment_labels, data.segment_size, data.annotated) == (True, 2, "whole")
    ((_, video),) = read(tmp_path / "data" / "video").values()
    assert (video.values("labels"), "segment_labels" in video.context) == ([0, 1], False)
