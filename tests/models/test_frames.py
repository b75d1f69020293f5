"""Means, masks and samples of the frames that are real."""

from __future__ import annotations

import numpy as np
import pytest

from yt8m.lazy import tf
from yt8m.models import frames
from yt8m.numerics import random_keys


@pytest.mark.parametrize("num_frames", [None, [0, 1, 4, 9]])
def test_mean_of_real_frames(num_frames: list[int] | None) -> None:
    x = np.random.default_rng(0).normal(size=(4, 6, 3)).astype(np.float32)
    real = [6] * 4 if num_frames is None else np.minimum(num_frames, 6)
    with tf.Graph().as_default(), tf.Session() as session:
        counts = None if num_frames is None else tf.constant(num_frames, tf.int64)
        mean, mask = session.run([f(tf.constant(x), counts) for f in (frames.mean, frames.mask)])
    for row, n in enumerate(real):
        np.testing.assert_allclose(mean[row], x[row, :n].sum(0) / max(n, 1), rtol=1e-5, atol=1e-6)
        assert mask[row].tolist() == [1.0] * n + [0.0] * (6 - n)


T = 9
COUNTS = np.array([0, 1, 3, 9], np.int32)
# The value of frame t is t + 1, of padding 0.
FRAMES = np.where(np.arange(T) < COUNTS[:, None], np.arange(1, T + 1), 0)[:, :, None].astype(np.float32)


def draw(samples: int, scattered: bool, is_training: bool, step: int = 0) -> np.ndarray:
    with tf.Graph().as_default(), tf.Session() as session:
        with random_keys.scope(3, tf.constant(step, tf.int64)):
            chosen = frames.sample(
                tf.constant(FRAMES), tf.constant(COUNTS), samples, scattered=scattered, is_training=is_training
            )
        return session.run(chosen)[:, :, 0].astype(int)


def test_even_frames() -> None:
    assert draw(3, True, False).tolist() == [[0, 0, 0], [1, 1, 1], [1, 2, 3], [2, 5, 8]]


def test_run_from_the_start_repeats_the_last_frame() -> None:
    assert draw(5, False, False).tolist() == [[0] * 5, [1] * 5, [1, 2, 3, 3, 3], [1, 2, 3, 4, 5]]


@pytest.mark.parametrize("scattered", [True, pytest.param(False, marks=pytest.mark.heavy)])
def test_random_frames_are_real_and_all_are_reached(scattered: bool) -> None:
    draws = [draw(4, scattered, True, step) for step in range(40)]
    for row, count in enumerate(COUNTS):
        seen = {int(value) for one in draws for value in one[row]}
        assert seen == (set(range(1, count + 1)) or {0})


@pytest.mark.heavy
def test_random_runs_are_neighbours() -> None:
    starts = set()
    for step in range(40):
        run = draw(4, False, True, step)
        assert (np.diff(run[3]) == 1).all()
        assert run[2].tolist() == [1, 2, 3, 3]
        starts.add(int(run[3, 0]))
    assert starts == {1, 2, 3, 4, 5, 6}
