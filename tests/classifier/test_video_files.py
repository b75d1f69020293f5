"""Videos as X: their features come from extractors, in training and in prediction, and the run knows these."""

from __future__ import annotations

import csv
import gc
import json
import pathlib

import made_videos
import numpy as np
import pytest

import yt8m
from yt8m.command_line import cli
from yt8m.lazy import tf


def test_paths_of_videos(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("av")
    assert tf.__version__  # the first import of TensorFlow keeps the frames that it happened in
    train_and_predict(tmp_path)
    gc.collect()  # the error that was raised holds the classifier


def train_and_predict(tmp_path: pathlib.Path) -> None:
    made_videos.write_kinds(tmp_path, 8)
    paths = sorted(tmp_path.rglob("*.mp4"))
    names = [[path.parent.name] for path in paths]
    options = {"max_steps": 30, "base_learning_rate": 0.1, "input_transform": "standardize", "export_model_steps": 0}
    classifier = yt8m.Classifier("FrameLevelLogisticModel", extractors="own_extractors:Thumbnails", options=options)
    classifier.fit(paths, names)
    scores = classifier.predict_proba(paths[:3])
    assert (scores.shape, classifier.classes_.tolist()) == ((3, 3), sorted(made_videos.KINDS))
    classifier.save(tmp_path / "run")
    with yt8m.load(tmp_path / "run", trust_code=True) as model:
        predicted = model.predict_video(paths[0], top_k=1)
        assert predicted.classes[0].score == pytest.approx(scores[0].max(), abs=1e-6)
        classifier.span_thresholds_ = scores[:2].max(axis=0).astype(np.float64) * 0.9  # few steps: no score reaches 0.5
        rule = write_rule(tmp_path / "spans.json", classifier)
        table = model.spans(paths[:2], spans_from=rule)
    found = classifier.spans(paths[:2])
    rows = [(str(path), *span) for path, spans in zip(paths, found, strict=False) for span in spans]
    assert [(row["video"], row["start"], row["end"], row["class"], row["score"]) for row in table] == rows
    assert len({row["video"] for row in table}) == 2
    assert all(0 <= row["start"] < row["end"] for row in table)
    words = [f"--model={tmp_path}/run", f"--spans={tmp_path}/found.csv", f"--spans_from={rule}", "--trust_code"]
    assert cli.call("predict", [*words, *map(str, paths[:2])]) == 0
    with (tmp_path / "found.csv").open() as file:
        written = [(row["video"], row["class"], float(row["start"])) for row in csv.DictReader(file) if row["class"]]
    assert written == [(row["video"], row["class"], pytest.approx(row["start"], abs=1e-3)) for row in table]
    assert cli.call("predict", [*words, str(paths[0]), str(write_broken(tmp_path))]) == 1
    for method in (classifier.predict, classifier.spans):
        with pytest.raises(yt8m.RunError, match=r"broken\.mp4"):
            method([write_broken(tmp_path)])


def write_broken(folder: pathlib.Path) -> pathlib.Path:
    (folder / "broken.mp4").write_bytes(b"no video")
    return folder / "broken.mp4"


def write_rule(path: pathlib.Path, classifier: yt8m.Classifier) -> pathlib.Path:
    """A file as `yt8m eval --spans` writes it, with the thresholds for spans of a classifier."""
    rule = {"hysteresis": 0.7, "gap": 0, "least": 1}
    content = {
        "segment_size": 5,
        "frames_per_second": 1.0,
        "rule": rule,
        "thresholds": classifier.span_thresholds_.tolist(),
    }
    path.write_text(json.dumps(content))
    return path
