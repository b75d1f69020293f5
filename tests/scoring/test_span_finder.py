"""Spans of video files have the times of the extractors, also of a run whose records are not made of spans."""

from __future__ import annotations

import json
import pathlib

import made_videos
import pytest

import yt8m
from yt8m.command_line import cli
from yt8m.errors import UsageError
from yt8m.lazy import tf

pytestmark = pytest.mark.long


def write_rule(path: pathlib.Path, **others: object) -> pathlib.Path:
    """A rule by which every cell shows every class."""
    rule = {"rule": {"hysteresis": 1.0, "gap": 0, "least": 1}, "thresholds": [0.0] * 3}
    path.write_text(json.dumps({"step": 1, "segment_size": 4, "frames_per_second": 2.0, **rule, **others}))
    return path


@pytest.mark.heavy
def test_times_are_those_of_two_frames_a_second(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("av")
    assert tf.__version__  # the first import of TensorFlow keeps the frames that it happened in
    (tmp_path / "clips").mkdir()
    made_videos.write_kinds(tmp_path / "clips", 3)
    paths = sorted((tmp_path / "clips").rglob("*.mp4"))
    words = [f"--videos={tmp_path}/clips", "--labels=folder", f"--out={tmp_path}/data", "--splits=train:1"]
    words += ["--extractors=own_extractors:Thumbnails", "--frames_per_second=2", "--shards=1"]
    assert cli.call("extract", words) == 0
    pattern = f"{tmp_path}/data/frame/train/*.tfrecord"
    words = [f"--data={pattern}", f"--train_dir={tmp_path}/run", "--model=FrameLevelLogisticModel", "--max_steps=1"]
    assert cli.call("train", words) == 0
    with yt8m.load(tmp_path / "run") as model:
        for data in (pattern, paths):
            rows = model.spans(data, spans_from=write_rule(tmp_path / "two.json"))
            ends = {(row["video"], row["class"]): row["end"] for row in rows}
            assert len(ends) == len(rows) == 3 * len(paths)
            records = yt8m.read_records(pattern)
            (lengths,) = ([count / 2 for count in batch.num_frames.tolist()] for batch in records)
            assert sorted(set(ends.values())) == sorted(set(lengths))
        with pytest.raises(UsageError, match=r"one.json is for features of 1 frames per second.*compute 2.*spans_from"):
            model.spans(paths, spans_from=write_rule(tmp_path / "one.json", frames_per_second=1.0))
