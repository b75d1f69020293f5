"""What is kept of the scores of videos, and the length of a training."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

from yt8m.config.train_config import OptimizerConfig, TrainConfig
from yt8m.labels.folds import FoldScores, join_folds, read_scores, score_videos, with_usual_length, write_scores
from yt8m.labels.score_counts import log_odds
from yt8m.records.data_format import DataFormat, FeatureFormat
from yt8m.records.record_parser import NumpyBatch
from yt8m.records.vocabulary import of_names
from yt8m.scoring.model_input import ModelInput, Videos
from yt8m.scoring.scorer import ArrayScorer

CLASSES = 30


class GivenScores(ArrayScorer):
    """A model whose features are its scores."""

    def __init__(self) -> None:
        data = DataFormat("video", (FeatureFormat("clip", CLASSES),), num_classes=CLASSES)
        about = {"model": "GivenScores", "step": 0, "is_averaged": False}
        super().__init__("given", ModelInput("given", data, (), True, False), of_names(()), "given", about)

    def compute(self, videos: Videos, rows: int) -> tuple[list[str], np.ndarray]:
        assert isinstance(videos, NumpyBatch)
        assert not videos.labels.any()  # it is not told the labels
        return list(videos.ids), np.asarray(videos.features["clip"])

    def close(self) -> None:
        """It holds nothing."""


def batch(scores: np.ndarray, labels: np.ndarray) -> NumpyBatch:
    return NumpyBatch(
        [str(row) for row in range(len(scores))], {"clip": scores}, np.ones(len(scores), np.int32), labels
    )


@pytest.fixture
def scored() -> tuple[np.ndarray, np.ndarray, FoldScores]:
    """Scores [N, C], labels [N, C], and what is kept of them."""
    rng = np.random.default_rng(0)
    scores, labels = rng.random((50, CLASSES), np.float32), rng.random((50, CLASSES)) < 0.1
    parts = [batch(scores[start : start + 20], labels[start : start + 20]) for start in range(0, 50, 20)]
    return scores, labels, score_videos(GivenScores(), parts)


def test_the_scores_of_labels_and_the_best_are_kept(scored: tuple[np.ndarray, np.ndarray, FoldScores]) -> None:
    scores, labels, kept = scored
    rows, classes = np.nonzero(labels)
    assert kept.owners().tolist() == rows.tolist()
    assert kept.labels.tolist() == classes.tolist()
    assert kept.label_scores == pytest.approx(log_odds(scores[rows, classes]))
    assert kept.best.tolist() == np.argsort(-scores, axis=1)[:, :20].tolist()
    assert kept.best_scores == pytest.approx(np.take_along_axis(log_odds(scores), kept.best.astype(np.int64), 1))
    assert kept.counts.labelled.sum(1).tolist() == labels.sum(0).tolist()
    assert kept.counts.others.sum(1).tolist() == (~labels).sum(0).tolist()


def test_folds_are_joined_in_the_order_of_the_videos(scored: tuple[np.ndarray, np.ndarray, FoldScores]) -> None:
    scores, labels, kept = scored
    places = np.random.default_rng(1).permutation(50)
    folds = [
        (part, score_videos(GivenScores(), [batch(scores[part], labels[part])])) for part in np.split(places, [17, 31])
    ]
    whole = join_folds(folds)
    for name in FoldScores._fields[:-1]:
        assert getattr(whole, name).tolist() == getattr(kept, name).tolist()
    assert (whole.counts.labelled == kept.counts.labelled).all()


def test_scores_are_read_as_they_were_written(
    scored: tuple[np.ndarray, np.ndarray, FoldScores], tmp_path: pathlib.Path
) -> None:
    write_scores(str(tmp_path / "scores.npz"), scored[2])
    again = read_scores(str(tmp_path / "scores.npz"))
    assert all((getattr(again, name) == getattr(scored[2], name)).all() for name in FoldScores._fields[:-1])
    assert (again.counts.others == scored[2].counts.others).all()


@pytest.mark.parametrize(
    ("videos", "batch_size", "epochs"), [(10, 16, 40), (240, 16, 40), (16_000, 128, 8), (900_000, 1024, 2)]
)
def test_the_length_of_a_training_follows_from_the_number_of_videos(videos: int, batch_size: int, epochs: int) -> None:
    data = with_usual_length(TrainConfig(), videos, None, None).data
    assert (data.batch_size, data.num_epochs) == (batch_size, epochs)
    data = with_usual_length(TrainConfig(), videos, 7, 3).data
    assert (data.batch_size, data.num_epochs) == (7, 3)


def test_a_rate_along_a_cosine_ends_with_the_training() -> None:
    config = TrainConfig(optimizer=OptimizerConfig(learning_rate_schedule="cosine", learning_rate_decay_examples=5.0))
    assert with_usual_length(config, 100, 7, 3).optimizer.learning_rate_decay_examples == 300
    assert with_usual_length(TrainConfig(), 100, 7, 3).optimizer == TrainConfig().optimizer
