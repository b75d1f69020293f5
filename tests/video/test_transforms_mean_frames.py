"""The mean of unit frames, made in blocks, against its definition; and which models are given it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import examples

from yt8m import models
from yt8m.lazy import tf
from yt8m.models.aggregation import FrameLevelLogisticModel
from yt8m.types import Batch
from yt8m.video import transforms
from yt8m.video.transforms import can_average_bytes, mean_of_unit_frames, takes_mean

SIZES = (7, 3)


def by_hand(features: tuple[np.ndarray, ...], num_frames: np.ndarray) -> np.ndarray:
    """One video and one frame after the other."""
    frames = np.concatenate(features, axis=-1) * (4 / 255) + 4 / 512 - 2
    means = np.zeros((len(frames), 1, frames.shape[-1]))
    for video, count in enumerate(num_frames):
        units = [frame / np.linalg.norm(frame) for frame in frames[video, :count]]
        means[video, 0] = np.mean(units, axis=0) if units else 0
    return means


@examples(8)
@given(
    videos=st.integers(0, 9),
    frames=st.integers(0, 6),
    block=st.sampled_from([None, 1, 60, 150, 400_000]),
    seed=st.integers(0, 9),
)
def test_it_is_the_mean_of_the_real_frames_by_their_length(
    videos: int, frames: int, block: int | None, seed: int
) -> None:
    """`block`: the values of a block, for segments; None for videos, whose number of frames the graph does not know."""
    draw = np.random.default_rng(seed)
    features = tuple(draw.integers(0, 256, (videos, frames, size)).astype(np.uint8) for size in SIZES)
    num_frames = draw.integers(0, frames + 1, videos).astype(np.int32)
    with pytest.MonkeyPatch.context() as patch, tf.Graph().as_default(), tf.Session() as session:
        patch.setattr(transforms, "_BLOCK_VALUES", block)
        known = frames if block else None
        given_features = tuple(tf.placeholder(tf.uint8, [None, known, size]) for size in SIZES)
        counts = tf.placeholder(tf.int32, [None])
        made = mean_of_unit_frames(Batch(None, given_features, counts, None))
        feed = dict(zip((*given_features, counts), (*features, num_frames), strict=True))
        found = session.run(made, feed)
    assert made.shape.as_list() == [None, 1, sum(SIZES)]
    np.testing.assert_allclose(found, by_hand(features, num_frames), atol=2e-7)


def test_the_mean_of_a_video_depends_on_nothing_else_in_its_batch() -> None:
    """So N towers, each with a share of the batch, compute the very values of one."""
    draw = np.random.default_rng(3)
    features = tuple(draw.integers(0, 256, (5, 40, size)).astype(np.uint8) for size in (64, 3))
    num_frames = np.array([40, 7, 0, 31, 1], np.int32)
    with tf.Graph().as_default(), tf.Session() as session:
        given_features = tuple(tf.placeholder(tf.uint8, [None, None, size]) for size in (64, 3))
        counts = tf.placeholder(tf.int32, [None])
        made = mean_of_unit_frames(Batch(None, given_features, counts, None))
        whole = session.run(made, dict(zip((*given_features, counts), (*features, num_frames), strict=True)))
        for row, count in enumerate(num_frames):
            alone = [feature[row : row + 1, : max(count, 1)] for feature in features]
            found = session.run(made, dict(zip((*given_features, counts), (*alone, [count]), strict=True)))
            np.testing.assert_array_equal(found[0], whole[row])


def test_one_pass_shifts_every_byte_to_the_same_bits_as_two() -> None:
    every = np.arange(256, dtype=np.uint8)
    with tf.Graph().as_default(), tf.Session() as session:
        codes = tf.placeholder(tf.uint8, [None])
        at_once, in_two = session.run(
            [transforms._shifted_in_one_pass(codes), transforms.shifted(codes)], {codes: every}
        )
    np.testing.assert_array_equal(at_once, in_two)
    np.testing.assert_array_equal(at_once[[0, 255]], [-127 - 1 / 512, 128 - 1 / 512])


class _Inherits(FrameLevelLogisticModel):
    note: ClassVar[str] = "nothing new"


class _LooksAtFrames(FrameLevelLogisticModel):
    def forward(self, net, inputs, vocab_size, num_frames):  # type: ignore[no-untyped-def]
        return super().forward(net, tf.square(inputs), vocab_size, num_frames)


class _Published:
    """As the published code's models are: no word on frames."""

    def create_model(self, model_input, vocab_size, num_frames, **unused):  # type: ignore[no-untyped-def]
        raise AssertionError


def test_only_a_model_that_says_so_beside_what_it_does_is_given_it() -> None:
    assert takes_mean(models.create("FrameLevelLogisticModel"))
    assert takes_mean(_Inherits())
    assert not takes_mean(_LooksAtFrames())
    assert not takes_mean(_Published())
    assert not takes_mean(models.create("DbofModel"))


@pytest.mark.parametrize(
    ("kinds", "device", "is_meant"),
    [
        ((np.uint8, np.uint8), "/device:CPU:0", True),
        ((np.uint8, np.uint8), "/device:GPU:0", False),
        ((np.uint8, np.float32), "/device:CPU:0", False),
    ],
)
def test_it_is_made_of_bytes_on_a_cpu(kinds: tuple[type, ...], device: str, is_meant: bool) -> None:
    with tf.Graph().as_default():
        features = tuple(tf.zeros([2, 3, 4], kind) for kind in kinds)
        with tf.device(device):
            assert can_average_bytes(Batch(None, features, tf.constant([3, 1]), None)) == is_meant
