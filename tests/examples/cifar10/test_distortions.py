"""Distortions against what they may do to a picture at most."""

from __future__ import annotations

import numpy as np
import pytest
from cifar_small import standardised

from examples.cifar10 import generated
from examples.cifar10.distortions import central, cropped, distorted
from yt8m.lazy import tf


@pytest.fixture(scope="module")
def pictures():
    return generated.pictures(64, np.random.default_rng(1))[0].astype(np.float32)


def run(make):
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(make())


def draw(pictures, seed, index):
    return run(lambda: distorted(tf.constant(pictures), seed, tf.constant(index, tf.int64)))


def centred(pictures):
    """Without each plane's mean, and of length 1: what neither brightness nor contrast changes."""
    values = pictures.astype(np.float64) - pictures.mean(axis=(1, 2), keepdims=True, dtype=np.float64)
    return values / np.linalg.norm(values.reshape(len(values), -1), axis=1)[:, None, None, None]


def test_each_is_some_part_of_its_picture_flipped_or_not(pictures):
    found = centred(draw(pictures, seed=3, index=5))
    best, where = np.zeros(len(pictures)), [None] * len(pictures)
    for flip in (False, True):
        for top in range(9):
            for left in range(9):
                part = pictures[:, top : top + 24, left : left + 24]
                same = np.sum(centred(part[:, :, ::-1] if flip else part) * found, axis=(1, 2, 3))
                for i in np.flatnonzero(same > best):
                    best[i], where[i] = same[i], (top, left, flip)
    np.testing.assert_allclose(best, 1, atol=1e-5)
    tops, lefts, flips = (set(drawn) for drawn in zip(*where, strict=True))
    assert len(tops) > 5
    assert len(lefts) > 5
    assert flips == {False, True}
    assert len(set(where)) > 40


def test_each_has_mean_0_and_variance_1(pictures):
    found = draw(pictures, seed=3, index=5)
    assert found.shape == (64, 24, 24, 3)
    np.testing.assert_allclose(found.mean(axis=(1, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(found.std(axis=(1, 2, 3)), 1, atol=1e-4)


def test_contrast_changes_how_far_planes_lie_apart(pictures):
    # Standardisation hides a common factor; what is left of it is the planes' distance over their spread.
    same = np.repeat(pictures[:1], 64, axis=0)
    found = draw(same, seed=1, index=0)
    planes = found.mean(axis=(1, 2))
    spread = (found - planes[:, None, None]).std(axis=(1, 2, 3))
    apart = np.abs(planes[:, 0] - planes[:, 2]) / spread
    assert apart.max() / apart.min() > 2.5


def test_seed_and_index_decide_all(pictures):
    first = draw(pictures, seed=3, index=5)
    np.testing.assert_array_equal(first, draw(pictures, seed=3, index=5))
    for seed, index in [(3, 6), (4, 5)]:
        assert np.abs(first - draw(pictures, seed, index)).max() > 0.1


def test_crops_lie_where_they_were_asked_for(pictures):
    corners = np.array([[0, 0], [8, 8], [3, 7]], np.int32)
    found = run(lambda: cropped(tf.constant(pictures[:3]), tf.constant(corners)))
    for part, picture, (top, left) in zip(found, pictures, corners, strict=False):
        np.testing.assert_array_equal(part, picture[top : top + 24, left : left + 24])


def test_the_central_part_is_taken_as_it_is(pictures):
    found = run(lambda: central(tf.constant(pictures)))
    np.testing.assert_allclose(found, standardised(pictures[:, 4:28, 4:28]), atol=1e-5)
