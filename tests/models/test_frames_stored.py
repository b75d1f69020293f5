"""Stored frames are picked where they lie, and by words where bytes cannot be gathered."""

from __future__ import annotations

import numpy as np
import pytest

from yt8m.lazy import tf
from yt8m.models import frames


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("size", [4, 6, 128])
@pytest.mark.parametrize("is_gpu", [False, True])
def test_the_frames_with_these_numbers(monkeypatch: pytest.MonkeyPatch, dtype: type, size: int, is_gpu: bool) -> None:
    monkeypatch.setattr(frames, "is_on_gpu", lambda _: is_gpu)
    draw = np.random.default_rng(2)
    stored = draw.integers(0, 256, (3, 7, size)).astype(dtype)
    numbers = draw.integers(0, 7, (3, 5)).astype(np.int32)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        fed = tf.placeholder(dtype, [None, None, size])
        picked = frames.gather_stored(fed, tf.constant(numbers))
        assert picked.shape.as_list()[1:] == [5, size]
        found = session.run(picked, {fed: stored})
        by_words = "Bitcast" in {op.type for op in graph.get_operations()}
    np.testing.assert_array_equal(found, np.take_along_axis(stored, numbers[:, :, None], axis=1))
    assert by_words is (is_gpu and dtype is np.uint8 and size != 6)


def test_they_are_picked_on_their_device_and_counted_there() -> None:
    with tf.Graph().as_default() as graph:
        with tf.device("/device:CPU:0"):
            codes = tf.placeholder(tf.uint8, [None, None, 8])
        with tf.device("/device:GPU:1"):
            inputs = tf.cast(codes, tf.float32)
            picked = frames.gather_stored(codes, tf.zeros([2, 3], tf.int32))
            with frames.build_on_demand(inputs, codes, lambda _: picked):
                frames.count(inputs, None)
        readers = {op.type: op.device for op in graph.get_operations() if codes.op in {t.op for t in op.inputs}}
    assert readers == {"Cast": "/device:GPU:1", "GatherV2": "/device:CPU:0", "Shape": "/device:CPU:0"}


@pytest.mark.parametrize("is_training", [False, True])
def test_the_numbers_of_a_sample_are_drawn_where_the_frames_are(is_training: bool) -> None:
    with tf.Graph().as_default() as graph:
        with tf.device("/device:CPU:0"):
            codes = tf.placeholder(tf.uint8, [None, None, 8])
            counts = tf.placeholder(tf.int32, [None])
        with tf.device("/device:GPU:1"):
            inputs = tf.cast(codes, tf.float32)
            with frames.build_on_demand(inputs, codes, lambda numbers: frames.gather_stored(codes, numbers)):
                before = len(graph.get_operations())
                frames.sample(inputs, counts, 3, scattered=True, is_training=is_training)
                frames.evenly_spaced(inputs, counts, 3)
                built = graph.get_operations()[before:]
    assert {op.device for op in built} == {"/device:CPU:0"}
