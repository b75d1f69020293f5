"""What augmentation leaves of the features: laws that hold for every draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import examples

from yt8m import losses, models
from yt8m.config.run_options import AugmentConfig
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.numerics import random_keys
from yt8m.types import Batch
from yt8m.video.modeler import VideoModeler
from yt8m.video.teachers import TrainingModeler
from yt8m.video.transforms import augment

T, SIZES = 12, (2, 1)


def batch_of(num_frames: list[int]) -> Batch:
    """Frames that tell where they come from: bytes row * 16 + frame, of both features."""
    rows = len(num_frames)
    place = (np.arange(rows)[:, None] * 16 + np.arange(T)[None, :]).astype(np.uint8)
    features = tuple(tf.constant(np.repeat(place[:, :, None], size, axis=2)) for size in SIZES)
    labels = tf.constant(np.eye(rows, 5) > 0)
    return Batch(tf.fill([rows], "v"), features, tf.constant(num_frames), labels)


def augmented(
    config: AugmentConfig, num_frames: list[int], step: int = 0, seed: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """(features as bytes again, -1 where there is no frame; num_frames)."""
    with tf.Graph().as_default(), tf.Session() as session:
        with random_keys.scope(seed, tf.constant(step, tf.int64)):
            changed = augment(batch_of(num_frames), config)
        features, counts = session.run([changed.features[0], changed.num_frames])
    assert features.dtype == np.float32
    inside = np.arange(T)[None, :, None] < counts[:, None, None]
    assert not features[~np.broadcast_to(inside, features.shape)].any()
    return np.where(inside, (features - 4 / 512 + 2) * 255 / 4, -1), counts


@examples(8)
@given(
    crop=st.sampled_from([1.0, 0.5, 0.01]),
    dropout=st.sampled_from([0.0, 0.3, 0.99]),
    step=st.integers(0, 10**6),
    num_frames=st.lists(st.integers(0, T), min_size=1, max_size=4),
)
def test_frames_that_stay_keep_their_order_and_one_always_stays(crop, dropout, step, num_frames) -> None:
    config = AugmentConfig(augment_crop=crop, augment_frame_dropout=dropout, augment_noise=1e-12)
    places, counts = augmented(config, num_frames, step)
    for row, (found, count, had) in enumerate(zip(places, counts, num_frames, strict=True)):
        assert (1 if had else 0) <= count <= had
        frames = np.rint(found[:count, 0]).astype(int) - row * 16
        np.testing.assert_allclose(found[:count], np.repeat(found[:count, :1], 3, axis=1))
        assert np.all(np.diff(frames) > 0)
        assert not count or (frames.min() >= 0 and frames.max() < had)
        if not dropout and count:
            assert np.all(np.diff(frames) == 1)
            assert count >= np.ceil(crop * had - 1e-4)


@pytest.mark.heavy
def test_dropout_leaves_the_share_that_was_asked_for_and_crops_reach_both_ends() -> None:
    dropped = [augmented(AugmentConfig(augment_frame_dropout=0.25), [T] * 8, s)[1] for s in range(20)]
    assert np.mean(dropped) / T == pytest.approx(0.75, abs=0.03)
    cropped = [augmented(AugmentConfig(augment_crop=0.5), [T] * 8, s) for s in range(20)]
    starts = {round(found[row, 0, 0]) - 16 * row for found, _ in cropped for row in range(8)}
    assert starts == set(range(T // 2))
    assert {int(count) for _, counts in cropped for count in counts} == set(range(T // 2 + 1, T + 1))


def test_noise_has_the_deviation_that_was_asked_for() -> None:
    clean, _ = augmented(AugmentConfig(augment_noise=1e-12), [T] * 15)
    noisy, _ = augmented(AugmentConfig(augment_noise=0.3), [T] * 15)
    difference = (noisy - clean) * 4 / 255
    assert difference.std() == pytest.approx(0.3, rel=0.1)
    assert abs(difference.mean()) < 0.05


def test_draws_are_a_function_of_seed_and_step_alone() -> None:
    config = AugmentConfig(augment_crop=0.3, augment_frame_dropout=0.3, augment_noise=0.1)
    first = augmented(config, [T, 5], step=7, seed=1)
    for found, expected in zip(augmented(config, [T, 5], step=7, seed=1), first, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert np.any(augmented(config, [T, 5], step=8, seed=1)[0] != first[0])
    assert np.any(augmented(config, [T, 5], step=7, seed=2)[0] != first[0])


def losses_of(modeler: Any, is_training: bool) -> list[np.ndarray]:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(4)
        with random_keys.scope(3, tf.constant(9, tf.int64)):
            output = modeler.build(batch_of([T, 4, 1]), is_training)
        session.run(tf.global_variables_initializer())
        return session.run([output.loss, output.predictions])


def model_parts() -> tuple[Any, ...]:
    """A model that draws frames at random itself, so that a shifted draw shows."""
    small = {"dbof_cluster_size": 4, "dbof_hidden_size": 3, "iterations": 3}
    return models.create("DbofModel", small), losses.create("CrossEntropyLoss"), 5, 3, SIZES


@pytest.mark.heavy
def test_nothing_changes_where_all_is_off_or_nothing_is_trained() -> None:
    def modeler(**asked: float) -> TrainingModeler:
        return TrainingModeler(*model_parts(), augmentation=AugmentConfig(**asked), teacher=None, distill_weight=0.5)

    for is_training, asked in ((True, {}), (False, {"augment_noise": 1.0, "augment_crop": 0.1})):
        plain = losses_of(VideoModeler(*model_parts()), is_training)
        for found, expected in zip(losses_of(modeler(**asked), is_training), plain, strict=True):
            np.testing.assert_array_equal(found, expected)
    plain, noisy = (losses_of(modeler(augment_noise=noise), True)[0] for noise in (0.0, 1.0))
    assert plain != noisy


def test_bounds() -> None:
    for name, value in (("augment_crop", 0.0), ("augment_frame_dropout", 1.0), ("augment_noise", -1.0)):
        with pytest.raises(UsageError, match=f"{name} must be at"):
            AugmentConfig(**{name: value})
