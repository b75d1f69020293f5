"""Mixed batches, compared with NumPy, and what training does with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from yt8m import losses, models
from yt8m.config.run_options import AugmentConfig
from yt8m.lazy import tf
from yt8m.numerics import random_keys
from yt8m.types import Batch
from yt8m.video import transforms
from yt8m.video.modeler import VideoModeler
from yt8m.video.teachers import TrainingModeler

DRAW = np.random.default_rng(5)
B, T, C = 6, 7, 4
COUNTS = np.array([3, 7, 0, 5, 1, 6], np.int32)
RGB, AUDIO = (DRAW.integers(0, 256, (B, T, size), np.uint8) for size in (3, 2))
VIDEO = DRAW.normal(size=(B, 3)).astype(np.float32)
LABELS = DRAW.random((B, C)) < 0.4
WEIGHTS = (DRAW.random((B, C)) < 0.5).astype(np.float32)
SCORES = DRAW.random((B, C)).astype(np.float32)


def frames() -> Batch:
    return Batch(
        tf.constant([f"v{row}" for row in range(B)]),
        (tf.constant(RGB), tf.constant(AUDIO)),
        tf.constant(COUNTS),
        tf.constant(LABELS),
    )


def videos() -> Batch:
    return frames()._replace(features=(tf.constant(VIDEO),), num_frames=tf.ones([B], tf.int32))


def evaluated(make_batch: Callable[[], Batch], step: int = 0, seed: int = 0) -> tuple[Any, Any]:
    """The mixture and the mixed batch, as arrays."""
    with tf.Graph().as_default(), tf.Session() as session:
        with random_keys.scope(seed, tf.constant(step, tf.int64)):
            mixture = transforms.draw_mixture(tf.constant(B), 0.5)
        mixed = mixture.mix_batch(make_batch())
        present = {name: value for name, value in mixed._asdict().items() if value is not None}
        return session.run((mixture, present))


def by_hand(rows: np.ndarray, mixture: Any) -> np.ndarray:
    pairs = zip(mixture.shares, rows, rows[mixture.partners], strict=True)
    return np.array([share * own + (1 - share) * other for share, own, other in pairs])


def test_frames_and_labels() -> None:
    mixture, mixed = evaluated(frames)
    joined = np.concatenate([RGB, AUDIO], -1) * (4 / 255) + 4 / 512 - 2
    joined[np.arange(T)[None, :] >= COUNTS[:, None]] = 0
    np.testing.assert_allclose(mixed["features"][0], by_hand(joined, mixture), atol=1e-6)
    np.testing.assert_allclose(mixed["labels"], by_hand(LABELS.astype(float), mixture), atol=1e-6)
    assert mixed["num_frames"].tolist() == np.maximum(COUNTS, COUNTS[mixture.partners]).tolist()
    assert mixed["video_ids"].tolist() == [f"v{row}".encode() for row in range(B)]
    assert mixed.keys() == {"video_ids", "features", "num_frames", "labels"}


def test_videos() -> None:
    mixture, mixed = evaluated(videos)
    np.testing.assert_allclose(mixed["features"][0], by_hand(VIDEO, mixture), atol=1e-6)
    assert mixed["num_frames"].tolist() == [1] * B


def test_a_loss_on_rated_pairs_is_the_mean_of_the_losses_of_both() -> None:
    """With the shares as weights, so that a pair that was not rated in one of them has the label of the other."""
    p = DRAW.uniform(0.1, 0.9, (B, C))

    def cross_entropy(labels: np.ndarray, weights: np.ndarray) -> np.ndarray:
        return weights * (-labels * np.log(p) - (1 - labels) * np.log(1 - p))

    mixture, mixed = evaluated(
        lambda: videos()._replace(
            labels=tf.constant(SCORES), label_weights=tf.constant(WEIGHTS), video_labels=tf.constant(LABELS)
        )
    )
    rows = mixture.shares[:, None]
    expected = rows * cross_entropy(SCORES, WEIGHTS)
    expected += (1 - rows) * cross_entropy(SCORES[mixture.partners], WEIGHTS[mixture.partners])
    np.testing.assert_allclose(cross_entropy(mixed["labels"], mixed["label_weights"]), expected, atol=1e-6)
    assert (mixed["video_labels"] == LABELS | LABELS[mixture.partners]).all()


@pytest.mark.parametrize("alpha", [0.001, 0.5, 4.0])
def test_shares_have_the_distribution_and_partners_are_a_permutation(alpha: float) -> None:
    with tf.Graph().as_default(), tf.Session() as session, random_keys.scope(0, tf.constant(3, tf.int64)):
        mixture = session.run(transforms.draw_mixture(tf.constant(20_000), alpha))
    expected = np.random.default_rng(1).beta(alpha, alpha, 20_000)
    expected = np.maximum(expected, 1 - expected)
    quantiles = np.linspace(0.01, 0.99, 9)
    np.testing.assert_allclose(np.quantile(mixture.shares, quantiles), np.quantile(expected, quantiles), atol=0.01)
    assert mixture.shares.min() >= 0.5
    assert mixture.shares.max() <= 1
    assert sorted(mixture.partners) == list(range(20_000))


def test_draws_are_a_function_of_seed_and_step_alone() -> None:
    first = evaluated(frames, step=7, seed=1)[0]
    for other, is_equal in (((7, 1), True), ((8, 1), False), ((7, 2), False)):
        shares = evaluated(frames, *other)[0].shares
        assert np.array_equal(shares, first.shares) is is_equal


class _Teacher:
    """A teacher that is sure of the labels."""

    def probabilities(self, batch: Batch) -> tf.Tensor:
        return tf.cast(batch.labels, tf.float32)


@pytest.mark.parametrize("teacher_weight", [0.0, 0.6])
def test_training_learns_mixtures_and_a_teacher_is_mixed_alike(teacher_weight: float) -> None:
    """With a teacher that gives the labels, the loss is that of the labels, whatever its weight."""
    parts = models.create("LogisticModel"), losses.create("CrossEntropyLoss"), C, 3, (3,)
    teacher: Any = _Teacher()
    modeler = TrainingModeler(
        *parts, augmentation=AugmentConfig(mixup=0.5), teacher=teacher, distill_weight=teacher_weight
    )
    with tf.Graph().as_default(), tf.Session() as session:
        with random_keys.scope(0, tf.constant(0, tf.int64)):
            loss = modeler.build(videos(), is_training=True).loss
        _, mixed = evaluated(videos)
        plain = VideoModeler(*parts)
        with tf.variable_scope(tf.get_variable_scope(), reuse=True):
            batch = Batch(tf.constant(["v"] * B), (tf.constant(mixed["features"][0]),), tf.ones([B], tf.int32),
                          tf.constant(mixed["labels"]))  # fmt: skip
            expected = plain.build(batch, is_training=True).loss
        session.run(tf.global_variables_initializer())
        value, reference = session.run([loss, expected])
    assert value == pytest.approx(reference, rel=1e-6)
