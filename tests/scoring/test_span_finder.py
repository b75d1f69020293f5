"""Spans of video files have the times of the extractors, also of a run whose records are not made of spans."""

from __future__ import annotations

import contextlib
import json
import pathlib
from typing import Any

import made_videos
import pytest
from serving.test_span_service import request

import yt8m
from yt8m import scoring
from yt8m.command_line import cli
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.serving.serve_config import ServeConfig
from yt8m.serving.service import Service

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
        with pytest.raises(UsageError, match=r"one\.json .*\b1 frames per second.* 2\b.*spans_from"):
            model.spans(paths, spans_from=write_rule(tmp_path / "one.json", frames_per_second=1.0))
        expected = model.spans(paths[:1], spans_from=tmp_path / "two.json")
    answer = uploaded(tmp_path, paths[0])
    assert (answer["id"], answer["seconds"]) == ("mine", expected[-1]["end"])
    columns = ("start", "end", "index", "score")
    assert [[span[name] for name in columns] for span in answer["spans"]] == [
        [pytest.approx(row[name], rel=1e-5) for name in columns] for row in expected
    ]


def uploaded(folder: pathlib.Path, clip: pathlib.Path) -> dict[str, Any]:
    """The answer of the service for a video file as a body."""
    config = ServeConfig(train_dir=str(folder / "run"), spans_from=str(folder / "two.json"))
    with (
        scoring.open(config.train_dir, first_input="floats") as scorer,
        contextlib.closing(Service(scorer, config)) as service,
    ):
        status, answer = request(service, "/spans", "video/mp4", clip.read_bytes(), query="id=mine")
    assert status == 200, answer
    (video,) = answer["videos"]
    return dict(video)
