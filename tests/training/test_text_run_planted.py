"""A classifier that is given, not trained, and labels afterwards: in a space where the best possible AP is known.

The vectors of the classes are orthonormal, and a video is the sum of the vectors of its classes and of normal noise.
Then the product with the vector of a class is all that the video says about it, so no ranking has a higher expected AP.
This shows the arithmetic, not how good a network is.
"""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from reader_records import video_record, write_shard
from sklearn.metrics import average_precision_score

import yt8m
from yt8m.command_line import cli
from yt8m.config.data_config import DataConfig
from yt8m.config.train_config import ModelConfig, TrainConfig
from yt8m.records import vocabulary
from yt8m.training.checkpoint_import import write_run

CLASSES, SIZE, NOISE, VIDEOS = 6, 24, 0.35, 3000
NAMES = [f"class {c}" for c in range(CLASSES)]


def draw(seed: int, videos: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The vectors of the classes [C, D], labels [N, C] and features [N, D]."""
    random = np.random.default_rng(seed)
    vectors = np.linalg.qr(np.random.default_rng(7).normal(size=(SIZE, CLASSES)))[0].T
    labels = random.random((videos, CLASSES)) < 0.15
    return vectors, labels, labels @ vectors + random.normal(scale=NOISE, size=(videos, SIZE))


def precision(folder: str, labels: np.ndarray, features: np.ndarray) -> np.ndarray:
    """The AP of each class by the scores of a run."""
    with yt8m.load(folder) as model:
        videos = list(model.predict({"mean_planted": features.astype(np.float32)}, top_k=CLASSES))
    scores = np.array([[{one.name: one.score for one in video.classes}[name] for name in NAMES] for video in videos])
    return np.array([average_precision_score(labels[:, c], scores[:, c]) for c in range(CLASSES)])


@pytest.mark.heavy
@pytest.mark.long
def test_classes_without_labels_are_near_the_best_and_labels_make_them_no_worse(tmp_path: pathlib.Path) -> None:
    vectors, labels, features = draw(0, VIDEOS)
    best = np.array([average_precision_score(labels[:, c], features @ vectors[c]) for c in range(CLASSES)])
    data = DataConfig(feature_names=("mean_planted",), feature_sizes=(SIZE,), num_classes=CLASSES)
    zero = TrainConfig(train_dir=f"{tmp_path}/zero", data=data, model=ModelConfig("LogisticModel"))
    values = {
        "tower/fully_connected/weights": (10 * vectors.T).astype(np.float32),
        "tower/fully_connected/biases": np.full(CLASSES, -5, np.float32),
    }
    write_run(zero, values, 0, vocabulary.of_names(NAMES), "made of vectors")
    without_labels = precision(f"{tmp_path}/zero", labels, features)
    assert (without_labels >= 0.8 * best).all()
    _, few, videos = draw(1, 20)
    records = [
        video_record(id=[b"video"], labels=np.flatnonzero(few[row]), mean_planted=videos[row].tolist())
        for row in range(20)
    ]
    write_shard(tmp_path / "train0000.tfrecord", records)
    words = [f"--train_data_pattern={tmp_path}/train0000.tfrecord", f"--train_dir={tmp_path}/on", "--batch_size=20"]
    words += ["--feature_names=mean_planted", f"--feature_sizes={SIZE}", f"--num_classes={CLASSES}", "--num_epochs=20"]
    assert cli.main(["train", *words, f"--init_from={tmp_path}/zero", "--base_learning_rate=0.01"]) == 0
    with_labels = precision(f"{tmp_path}/on", labels, features)
    assert with_labels.mean() >= without_labels.mean() - 0.005
