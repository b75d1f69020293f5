"""Feature arrays: dequantised, resized and joined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from golden_data import golden
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from laws import examples

from yt8m.lazy import tf
from yt8m.readers import dequantize, join_features, resize_axis
from yt8m.types import Batch


def run(make: Any) -> np.ndarray:
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(make())


def test_dequantize_gives_the_recorded_values() -> None:
    data = np.load(golden("readers.npz"))
    values = run(lambda: dequantize(tf.constant(data["dequantize/bytes"])))
    np.testing.assert_allclose(values, data["dequantize/tf_float32"], atol=3e-7)
    np.testing.assert_allclose(values, data["dequantize/python_float64"], atol=3e-7)
    other_range = run(lambda: dequantize(tf.constant(data["dequantize/bytes"]), 3, -1))
    np.testing.assert_allclose(other_range, data["dequantize/range_-1_3"], atol=3e-7)


@given(st.floats(-50, 50), st.floats(0.1, 100))
@examples(20)
def test_dequantize_follows_the_formula_and_stays_near_the_range(low: float, width: float) -> None:
    quantized = np.arange(256, dtype=np.uint8)
    values = run(lambda: dequantize(tf.constant(quantized), low + width, low))
    np.testing.assert_allclose(values, low + quantized * width / 255 + width / 512, rtol=1e-5, atol=2e-5)
    assert np.all(np.diff(values) > 0)


def test_dequantize_refuses_an_empty_range() -> None:
    with pytest.raises(ValueError, match="is empty"):
        dequantize(None, 2.0, 2.0)


@pytest.mark.parametrize(
    ("name", "axis", "size", "fill"),
    [("axis0_size6_fill0", 0, 6, 0), ("axis0_size2_fill0", 0, 2, 0), ("axis1_size5_fill7", 1, 5, 7)]
    + [("axis1_size3_fill0", 1, 3, 0)],
)
def test_resize_axis_gives_the_recorded_arrays(name: str, axis: int, size: int, fill: int) -> None:
    data = np.load(golden("readers.npz"))
    resized = run(lambda: resize_axis(tf.constant(data["resize_axis/input"]), axis, size, fill))
    np.testing.assert_array_equal(resized, data[f"resize_axis/{name}"])


@given(arrays(np.uint8, st.tuples(*[st.integers(0, 4)] * 3)), st.integers(0, 2), st.integers(0, 6), st.integers(0, 9))
@examples(30)
def test_resize_axis_keeps_the_front_and_fills_the_rest(array: np.ndarray, axis: int, size: int, fill: int) -> None:
    resized = run(lambda: resize_axis(tf.constant(array), axis, size, fill))
    shape = list(array.shape)
    shape[axis] = size
    expected = np.full(shape, fill, np.uint8)
    front = tuple(slice(min(old, new)) for old, new in zip(array.shape, shape, strict=True))
    expected[front] = array[front]
    np.testing.assert_array_equal(resized, expected)


def test_resize_axis_knows_its_static_shape() -> None:
    with tf.Graph().as_default():
        unknown = tf.placeholder(tf.uint8, [None, None, 8])
        assert resize_axis(unknown, 1, 5).shape.as_list() == [None, 5, 8]


def test_join_features_masks_after_dequantising_and_leaves_floats_alone() -> None:
    quantized = np.full([2, 3, 2], 255, np.uint8)
    floats = np.full([2, 3, 1], 7, np.float32)
    batch = Batch(None, (quantized, floats), np.array([1, 3]), None)
    joined = run(lambda: join_features(batch._replace(features=tuple(map(tf.constant, batch.features)))))
    assert joined.shape == (2, 3, 3)
    np.testing.assert_allclose(joined[1], [[2 + 4 / 512, 2 + 4 / 512, 7]] * 3, rtol=1e-6)
    np.testing.assert_array_equal(joined[0, 1:], 0)
