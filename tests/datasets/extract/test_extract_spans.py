"""`yt8m extract --rows=spans`: the spans of videos, stored with their frames, also while ranges are still learned."""

from __future__ import annotations

import json
import pathlib

import cases
import made_videos
import pytest
from own_clips import read

from yt8m.command_line import cli
from yt8m.errors import UsageError
from yt8m.records import manifest


@pytest.mark.parametrize("ranges", cases.all_of(["learned"], heavy=["floats"]))
def test_spans_are_stored_with_the_frames_alone(ranges: str, tmp_path: pathlib.Path) -> None:
    made_videos.write(tmp_path / "a.mp4", made_videos.grey, None, 8.0)
    table = "path,label,start,end,split\na.mp4,x,2,4.5,train\na.mp4,y,0:03,0:20,train\n"
    table += "a.mp4,z,9,12,train\na.mp4,z,3,3.5,train\n"
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
    assert (video.values("labels"), "segment_labels" in video.context) == ([0, 1], False), "all spans of z are left out"


def test_records_of_whole_videos_alone_have_no_cells(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_videos.write(tmp_path / "a.mp4", made_videos.grey, None, 8.0)
    (tmp_path / "spans.csv").write_text("path,label,start,end\na.mp4,x,2,2.5\na.mp4,y,3,20\na.mp4,z,9,12\n")
    words = [f"--videos={tmp_path / 'spans.csv'}", f"--out={tmp_path / 'data'}", "--rows=spans", "--level=video"]
    assert cli.call("extract", [*words, "--extractors=own_extractors:Colours", "--jobs=1"]) == 0
    out, err = capsys.readouterr()
    assert "cells" not in out
    assert "--level=frame stores their times" in err
    assert "absent" not in err
    ((_, video),) = read(tmp_path / "data" / "video").values()
    assert video.values("labels") == [0, 1], "z begins after the end"
    assert "spans" not in json.loads((tmp_path / "data/video/summary.json").read_text())["splits"]["train"]


def test_a_video_of_another_length_than_the_table_says_is_left_out(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        made_videos.write(tmp_path / f"{name}.mp4", made_videos.grey, None, 8.0)
    table = "path,label,start,end,video_duration\na.mp4,x,2,4.5,8.2\nb.mp4,y,3,9,31\n"
    (tmp_path / "spans.csv").write_text(table)
    words = [f"--videos={tmp_path / 'spans.csv'}", f"--out={tmp_path / 'data'}", "--rows=spans", "--max_bad_videos=1"]
    assert cli.call("extract", [*words, "--level=frame", "--extractors=own_extractors:Colours", "--jobs=1"]) == 0
    assert [path for path, _ in read(tmp_path / "data" / "frame").items()] == ["a.mp4"]
    report = (tmp_path / "data" / "extract.jsonl").read_text()
    assert "lasts 31 s by the table" in report


def test_parts_that_people_have_seen_are_stored(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An export of Label Studio whose task names parts, as `yt8m select` writes them; the hash knows the parts."""
    made_videos.write(tmp_path / "a.mp4", made_videos.grey, None, 8.0)
    value = {"ranges": [{"start": 51, "end": 100}], "timelinelabels": ["x"]}
    result = {"value": value, "from_name": "timeline", "to_name": "video", "type": "timelinelabels"}
    words = [f"--videos={tmp_path / 'export.json'}", f"--out={tmp_path / 'data'}", "--columns=path=id", "--jobs=1"]
    words += ["--segment_size=2", "--frame_rate=25", "--level=frame", "--extractors=own_extractors:Colours"]
    for parts, expected in (("2-4, 6-8", ([2, 6], [4, 8])), ("2-4", ([2], [4]))):
        task = {"data": {"video": "a.mp4", "parts": parts}, "annotations": [{"completed_by": 1, "result": [result]}]}
        (tmp_path / "export.json").write_text(json.dumps([task]))
        assert cli.call("extract", [*words, "--overwrite"]) == 0
        ((_, record),) = read(tmp_path / "data" / "frame").values()
        ranges = [record.values(f"annotated_{name}_times") for name in ("start", "end")]
        assert tuple(ranges) == expected
        text = capsys.readouterr().err
        assert "of 1 video, people have seen" in text
        assert "outside the parts" in text
        assert "absent outside" not in text


def test_flags_of_spans_are_refused_for_videos(tmp_path: pathlib.Path) -> None:
    made_videos.write(tmp_path / "a.mp4", made_videos.grey, None, 8.0)
    (tmp_path / "spans.csv").write_text("path,label,start,end\na.mp4,x,2,4.5\n")
    words = [f"--videos={tmp_path / 'spans.csv'}", f"--out={tmp_path / 'data'}", "--extractors=own_extractors:Colours"]
    with pytest.raises(UsageError, match=r"--segment_size=1 is for spans.*add --rows=spans"):
        cli.call("extract", [*words, "--segment_size=1"])
    assert not (tmp_path / "data").exists()
