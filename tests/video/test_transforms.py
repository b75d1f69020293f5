"""The transforms of the input against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.records import vocabulary
from yt8m.types import Batch
from yt8m.video.transforms import transform, transform_batch

ROWS, FRAMES, SIZES = 4, 5, (7, 3)


def batch_of(*features: np.ndarray, num_frames: list[int]) -> Batch:
    return Batch(None, tuple(map(tf.constant, features)), tf.constant(num_frames, tf.int32), None)


def by_hand(features: tuple[np.ndarray, ...], num_frames: list[int]) -> np.ndarray:
    """Dequantised, joined, masked, then every frame divided by its length."""
    floats = [f * (4 / 255) + 4 / 512 - 2 if f.dtype == np.uint8 else f.astype(float) for f in features]
    joined = np.concatenate(floats, axis=-1)
    joined[np.arange(FRAMES)[np.newaxis, :] >= np.array(num_frames)[:, np.newaxis]] = 0
    return joined / np.maximum(np.linalg.norm(joined, axis=-1, keepdims=True), 1e-6)


@pytest.mark.parametrize("kinds", ["bytes", "floats", "bytes and floats"])
def test_unit_frames_are_the_dequantised_masked_frames_by_their_length(kinds: str) -> None:
    draw = np.random.default_rng(5)
    quantised = tuple(draw.integers(0, 256, (ROWS, FRAMES, size)).astype(np.uint8) for size in SIZES)
    floats = tuple(draw.normal(size=(ROWS, FRAMES, size)).astype(np.float32) for size in SIZES)
    features = {"bytes": quantised, "floats": floats, "bytes and floats": (quantised[0], floats[1])}[kinds]
    num_frames = [5, 0, 1, 3]
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(transform_batch("l2_normalize", batch_of(*features, num_frames=num_frames), SIZES))
    np.testing.assert_allclose(found, by_hand(features, num_frames), atol=1e-7)


def test_a_frame_of_zeros_stays_one() -> None:
    features = np.zeros((1, FRAMES, 2), np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(transform_batch("l2_normalize", batch_of(features, num_frames=[FRAMES]), (2,)))
    np.testing.assert_array_equal(found, features)


def test_raw_frames_are_not_divided() -> None:
    features = np.full((1, FRAMES, 2), 255, np.uint8)
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(transform_batch("raw", batch_of(features, num_frames=[2]), (2,)))
    np.testing.assert_allclose(found[0, :2], 2 + 4 / 512, rtol=1e-6)
    np.testing.assert_array_equal(found[0, 2:], 0)


@pytest.mark.parametrize("sizes", [(1024,), (1024, 3), (3, 1024)])
def test_whitening_is_undone_where_the_rgb_features_are(sizes: tuple[int, ...]) -> None:
    """x times the square roots of the first eigenvalues, without the half step that dequantising adds."""
    draw = np.random.default_rng(6)
    features = tuple(draw.integers(0, 256, (2, 3, size)).astype(np.uint8) for size in sizes)
    with tf.Graph().as_default(), tf.Session() as session:
        batch = batch_of(*features, num_frames=[3, 1])
        found = session.run(transform_batch("reverse_whitening", batch, sizes))
    at = sizes.index(1024)
    expected = [f * (4 / 255) + 4 / 512 - 2 for f in features]
    roots = np.sqrt(vocabulary.pca_eigenvalues()[:1024].astype(float))
    expected[at] = (features[at] * (4 / 255) - 2) * (roots + 1e-4)
    whole = np.concatenate(expected, -1)
    np.testing.assert_allclose(found[0], whole[0], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1, 0], whole[1, 0], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(found[1, 1:], 0)  # padding
    assert 0.01 < roots[-1] < roots[0]


def test_there_is_no_whitening_to_undo_without_rgb() -> None:
    with tf.Graph().as_default(), pytest.raises(UsageError, match=r"1024 rgb features .* sizes are \(5,\)"):
        transform("reverse_whitening", tf.ones([1, 2, 5]), (5,))
