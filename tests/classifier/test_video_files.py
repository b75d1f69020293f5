"""Videos as X: their features come from extractors, in training and in prediction, and the run knows these."""

from __future__ import annotations

import gc
import pathlib

import made_videos
import pytest

import yt8m
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
    options = {"max_steps": 30, "base_learning_rate": 0.1, "input_transform": "standardize"}
    classifier = yt8m.Classifier("FrameLevelLogisticModel", extractors="own_extractors:Thumbnails", options=options)
    classifier.fit(paths, names)
    scores = classifier.predict_proba(paths[:3])
    assert (scores.shape, classifier.classes_.tolist()) == ((3, 3), sorted(made_videos.KINDS))
    classifier.save(tmp_path / "run")
    with yt8m.load(tmp_path / "run", trust_code=True) as model:
        predicted = model.predict_video(paths[0], top_k=1)
        assert predicted.classes[0].score == pytest.approx(scores[0].max(), abs=1e-6)
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    with pytest.raises(yt8m.RunError, match=r"broken\.mp4"):
        classifier.predict([tmp_path / "broken.mp4"])
