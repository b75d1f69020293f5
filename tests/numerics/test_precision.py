"""The precision of products: scopes, bfloat16, and float16 with numbers that float16 does not have."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import examples

from yt8m.lazy import tf
from yt8m.numerics import precision

SIZES = st.integers(1, 6)


def test_the_innermost_scope_counts_and_ends() -> None:
    assert precision.current() == "float32"
    with precision.scope("bfloat16"):
        with precision.scope("float32"):
            assert precision.current() == "float32"
        assert precision.current() == "bfloat16"
    assert precision.current() == "float32"


@pytest.mark.parametrize("name", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("shape", [(7, 5), (2, 3, 5)])
def test_products_and_their_gradients(name: str, shape: tuple[int, ...]) -> None:
    """Sixteenths up to 1 are exact in bfloat16, and their products are near enough to round alike."""
    rng = np.random.default_rng(0)
    x, w, slope = (
        rng.integers(-16, 17, size=size).astype(np.float32) / 16 for size in (shape, (5, 4), (*shape[:-1], 4))
    )
    with tf.Graph().as_default(), tf.Session() as session:
        given = tf.constant(x), tf.constant(w)
        with precision.scope(name):
            made = precision.product(*given)
        values = session.run([made, *tf.gradients(made, given, tf.constant(slope))])
    rows, slopes = x.reshape(-1, 5), slope.reshape(-1, 4)
    expected = (x @ w, (slopes @ w.T).reshape(shape), rows.T @ slopes)
    for found, wanted in zip(values, expected, strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted, rtol=1e-6 if name == "float32" else 2**-8, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "device", "copies"), [("bfloat16", "CPU", 1), ("bfloat16", "GPU", 0), ("float32", "CPU", 0)]
)
def test_inputs_are_transposed_for_the_gradient_of_weights_where_that_is_faster(
    name: str, device: str, copies: int
) -> None:
    with tf.Graph().as_default() as graph, tf.device(f"/device:{device}:0"), precision.scope(name):
        weights = tf.zeros([5, 4])
        tf.gradients(precision.product(tf.zeros([7, 5]), weights), weights)
        assert [op.type for op in graph.get_operations()].count("Snapshot") == copies


def product(
    left: np.ndarray, right: np.ndarray, slope: np.ndarray, *, transpose_a: bool, transpose_b: bool
) -> list[np.ndarray]:
    """The product, and the gradients for both operands."""
    with tf.Graph().as_default(), tf.Session() as session:
        operands = tf.constant(left), tf.constant(right)
        made = precision.float16_matmul(*operands, transpose_a=transpose_a, transpose_b=transpose_b)
        return session.run([made, *tf.gradients(made, operands, tf.constant(slope))])


def turned(matrix: np.ndarray, is_turned: bool) -> np.ndarray:
    return np.swapaxes(matrix, -1, -2) if is_turned else matrix


@examples(15)
@given(
    *(SIZES, SIZES, SIZES, st.booleans(), st.booleans(), st.booleans()),
    st.tuples(*3 * [st.integers(-30, 30)]),
    st.integers(0, 1000),
)
def test_near_the_exact_product_whatever_the_scales(
    rows: int, inner: int, columns: int, transpose_a: bool, transpose_b: bool, is_batch: bool, scales, seed: int
) -> None:
    draw, parallel = np.random.default_rng(seed), (2,) if is_batch else ()
    a, b, c = (
        (draw.normal(size=(*parallel, *size)) * 2.0**scale).astype(np.float32)
        for size, scale in zip([(rows, inner), (inner, columns), (rows, columns)], scales, strict=True)
    )
    found = product(
        np.ascontiguousarray(turned(a, transpose_a)),
        np.ascontiguousarray(turned(b, transpose_b)),
        c,
        transpose_a=transpose_a,
        transpose_b=transpose_b,
    )
    of_a, of_b = c @ np.swapaxes(b, -1, -2), np.swapaxes(a, -1, -2) @ c
    expected = [a @ b, turned(of_a, transpose_a), turned(of_b, transpose_b)]
    sizes = [np.abs(a).max() * np.abs(b).max(), np.abs(c).max() * np.abs(b).max(), np.abs(a).max() * np.abs(c).max()]
    for one, other, size in zip(found, expected, sizes, strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, other, atol=6 * 2e-3 * size)


@pytest.mark.parametrize("tiny", [1e-12, 1e-37])
def test_gradients_that_float16_would_lose_are_kept(tiny: float) -> None:
    left, right = np.eye(2, dtype=np.float32), np.full((2, 2), 3, np.float32)
    slope = np.array([[tiny, 0], [0, tiny / 4]], np.float32)
    _, of_left, of_right = product(left, right, slope, transpose_a=False, transpose_b=False)
    np.testing.assert_allclose(of_left, slope @ right.T, rtol=1e-3)
    np.testing.assert_allclose(of_right, slope, rtol=1e-3)


def test_a_matrix_of_a_batch_is_not_lost_beside_one_a_million_times_as_large() -> None:
    left = np.array([[[1.0]], [[1.0]]], np.float32)
    slope = np.array([[[1e6]], [[0.3]]], np.float32)
    _, of_left, _ = product(left, left, slope, transpose_a=False, transpose_b=False)
    np.testing.assert_allclose(of_left, slope, rtol=1e-3)


def test_a_matrix_that_is_repeated_for_a_batch() -> None:
    draw = np.random.default_rng(3)
    left, right = (draw.normal(size=size).astype(np.float32) for size in ((1, 3, 4), (2, 5, 4)))
    slope = draw.normal(size=(2, 3, 5)).astype(np.float32)
    for operands, slopes in (((left, right), slope), ((right, left), np.swapaxes(slope, 1, 2))):
        made, *gradients = product(*operands, slopes, transpose_a=False, transpose_b=True)
        np.testing.assert_allclose(made, operands[0] @ np.swapaxes(operands[1], 1, 2), atol=0.02)
        expected = slopes @ operands[1], np.swapaxes(slopes, 1, 2) @ operands[0]
        for gradient, exact, operand in zip(gradients, expected, operands, strict=True):
            np.testing.assert_allclose(gradient, exact.sum(0, keepdims=True) if len(operand) == 1 else exact, atol=0.05)


def test_more_terms_than_float16_can_count() -> None:
    terms = 100_000
    ones = np.ones((1, terms), np.float32)
    made, of_left, _ = product(ones, ones.T, np.ones((1, 1), np.float32), transpose_a=False, transpose_b=False)
    assert made[0, 0] == pytest.approx(terms, rel=2e-3)
    np.testing.assert_array_equal(of_left, ones)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_seen(value: float) -> None:
    """And is not taken for a scale, which would make zeros of the rest."""
    left = np.array([[value, 0], [0, 2]], np.float32)
    made, *_ = product(left, np.eye(2, dtype=np.float32), left, transpose_a=False, transpose_b=False)
    assert not np.isfinite(made[0, 0])
    assert made[1, 1] == 2


def test_the_largest_numbers_that_float32_has() -> None:
    huge, third = np.full((1, 1), 3e38, np.float32), np.full((1, 1), 1 / 3, np.float32)
    made, of_left, _ = product(huge, third, huge, transpose_a=False, transpose_b=False)
    np.testing.assert_allclose([made[0, 0], of_left[0, 0]], [1e38, 1e38], rtol=2e-3)


def test_zeros() -> None:
    zeros = np.zeros((2, 2), np.float32)
    for found in product(zeros, zeros, zeros, transpose_a=True, transpose_b=False):
        np.testing.assert_array_equal(found, zeros)


def test_an_operand_in_float16_is_taken_as_it_is() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        left, right = tf.constant([[1.0, 2.0]]), tf.constant([[0.5], [0.25]], tf.float16)
        made = precision.float16_matmul(left, right, transpose_a=False, transpose_b=False)
        of_right = tf.gradients(made, right)[0]
        assert (made.dtype, of_right.dtype) == (tf.float32, tf.float16)
        assert [value.tolist() for value in session.run([made, of_right])] == [[[1.0]], [[1.0], [2.0]]]
