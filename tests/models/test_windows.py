"""A model that sees the windows beside a cell, compared with loops."""

from __future__ import annotations

import numpy as np
import pytest

from yt8m import models
from yt8m.lazy import tf
from yt8m.models.windows import CellWindows, append_windows, with_windows

DRAW = np.random.default_rng(5)


def by_loops(frames: np.ndarray, windows: CellWindows) -> np.ndarray:
    """The frames of a cell of `frames`, [size + 2 context, D], each with the means beside it."""
    first, end, length, near, means = windows.context, windows.context + windows.size, windows.size, 0, []
    while near < windows.context:
        far = min(near + length, windows.context)
        means += [frames[first - far : first - near].mean(0), frames[end + near : end + far].mean(0)]
        near, length = far, 2 * length
    return np.stack([np.concatenate([frame, *means]) for frame in frames[first:end]])


def computed(inputs: np.ndarray, counts: list[int] | None, windows: CellWindows) -> tuple[np.ndarray, list[int]]:
    with tf.Graph().as_default(), tf.Session() as session:
        numbers = None if counts is None else tf.constant(counts)
        values, lengths = session.run(append_windows(tf.constant(inputs, tf.float32), numbers, windows))
    return values, lengths.tolist()


@pytest.mark.parametrize("windows", [CellWindows(1, 5), CellWindows(2, 3), CellWindows(5, 5), CellWindows(3, 1)])
@pytest.mark.parametrize("has_counts", [True, False])
def test_each_frame_of_a_cell_has_the_means_of_the_windows_beside_it(windows: CellWindows, has_counts: bool) -> None:
    inputs = DRAW.normal(size=(3, windows.frames, 4))
    values, lengths = computed(inputs, [windows.frames] * 3 if has_counts else None, windows)
    np.testing.assert_allclose(values, [by_loops(rows, windows) for rows in inputs], rtol=1e-4, atol=1e-6)
    assert lengths == [windows.size] * 3
    assert values.shape[-1] == 4 * windows.parts


def expected_of(video: np.ndarray, windows: CellWindows) -> np.ndarray:
    """What the model gets of a video [T, D]: by its own number of frames alone."""
    if len(video) == windows.frames:  # it cannot be told from a cell
        return by_loops(video, windows)
    mean = video.mean(0) if len(video) else np.zeros(video.shape[1])
    return np.concatenate([video, np.tile(mean, (len(video), windows.parts - 1))], axis=1)


@pytest.mark.parametrize("counts", [[4, 2, 0], [7, 2, 0], [7, 6, 1], [9, 7, 3], [7, 7, 7], [8, 7, 6], [2]])
@pytest.mark.parametrize("padding", [0, 5])
def test_a_whole_video_is_seen_as_it_is_whatever_videos_are_beside_it(counts: list[int], padding: int) -> None:
    windows = CellWindows(1, 3)
    videos = [DRAW.normal(size=(count, 2)) for count in counts]
    inputs = np.stack([np.pad(video, ((0, max(counts) + padding - len(video)), (0, 0))) for video in videos])
    values, lengths = computed(inputs, counts, windows)
    for row, video in enumerate(videos):
        expected = expected_of(video, windows)
        assert lengths[row] == len(expected)
        np.testing.assert_allclose(values[row, : lengths[row]], expected, rtol=1e-4, atol=1e-6)
        assert not values[row, lengths[row] :].any()


def test_the_model_stays_what_it_is_and_gets_wider_frames() -> None:
    model = models.create("FrameLevelLogisticModel")
    seeing = with_windows(model, CellWindows(2, 2))
    assert isinstance(seeing, type(model))
    assert (type(seeing).__name__, seeing.level) == ("FrameLevelLogisticModel", "frame")
    inputs = DRAW.normal(size=(2, 6, 3)).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        output = seeing.create_model(
            tf.constant(inputs), num_frames=tf.constant([6, 6]), vocab_size=5, is_training=False
        )
        session.run(tf.global_variables_initializer())
        weights, predictions = session.run([tf.trainable_variables()[0], output.predictions])
    seen = np.stack([by_loops(rows, CellWindows(2, 2)).mean(0) for rows in inputs])
    np.testing.assert_allclose(predictions, 1 / (1 + np.exp(-seen @ weights)), rtol=1e-4)
