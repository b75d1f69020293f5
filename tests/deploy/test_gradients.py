"""Combining and clipping against the published code's values, NumPy and TensorFlow's own clipping."""

from __future__ import annotations

import numpy as np
import pytest
from golden_data import golden
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from laws import examples

from yt8m.deploy import average_gradients, clip_by_global_norm, clip_gradient_norms, combine_gradients, gradient_norms
from yt8m.lazy import tf


@pytest.fixture(scope="module")
def optim():
    return np.load(golden("optim.npz"))


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as opened:
        yield opened


def pairs(gradients):
    return [(gradient, f"v{i}") for i, gradient in enumerate(gradients)]


@pytest.mark.parametrize("max_norm", [1, 0.1])
@pytest.mark.parametrize("at_hand", [False, True])
def test_clipping_is_the_published_one(optim, session, max_norm, at_hand):
    inputs = [tf.constant(optim[f"clip/input{i}"]) for i in range(5)]
    norms = gradient_norms(inputs) if at_hand else None
    clipped = session.run([g for g, _ in clip_gradient_norms(pairs(inputs), max_norm, norms)])
    for i, found in enumerate(clipped):
        np.testing.assert_allclose(found, optim[f"clip/max{max_norm}/output{i}"], rtol=1e-6, atol=1e-9)


def test_sparse_gradients_are_clipped_on_their_values_and_none_stays(optim, session):
    given_ = tf.IndexedSlices(tf.constant(optim["clip/sparse_values"]), tf.constant(optim["clip/sparse_indices"]))
    (sparse, _), (none, name) = clip_gradient_norms(pairs([given_, None]), 1.0)
    np.testing.assert_allclose(session.run(sparse.values), optim["clip/max1/sparse_output_values"], rtol=1e-6)
    np.testing.assert_array_equal(session.run(sparse.indices), optim["clip/sparse_indices"])
    assert none is None
    assert name == "v1"
    norms = session.run(gradient_norms([given_, None]))
    np.testing.assert_allclose(norms, [np.linalg.norm(optim["clip/sparse_values"]), 0], rtol=1e-6)
    assert norms.dtype == np.float32
    assert session.run(gradient_norms([])).shape == (0,)


@pytest.mark.parametrize("max_norm", [0, -1.0, float("nan")])
def test_clipping_to_nothing_is_refused(max_norm):
    with pytest.raises(ValueError, match=r"max_norm is .*positive"):
        clip_gradient_norms([], max_norm)


def test_a_nan_shows_in_its_norm_and_only_there(session):
    norms = gradient_norms([tf.constant([1.0, np.nan]), tf.constant([3.0, 4.0]), tf.constant([np.inf])])
    np.testing.assert_array_equal(session.run(norms), [np.nan, 5.0, np.inf])
    clipped = clip_gradient_norms(pairs([tf.constant([1.0, np.nan])]), 1.0)
    assert np.isnan(session.run(clipped[0][0])).any()


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_types_keep_their_type(session, dtype):
    (clipped, _) = clip_gradient_norms(pairs([tf.constant([300.0, 400.0], dtype)]), 1.0)[0]
    assert clipped.dtype == dtype
    np.testing.assert_allclose(session.run(clipped), [0.6, 0.8], rtol=1e-3)


@examples(10)
@given(hnp.arrays(np.float32, hnp.array_shapes(max_dims=3), elements=st.floats(-9, 9, width=32, allow_subnormal=False)))
def test_no_norm_is_above_the_bound_and_no_small_gradient_moves(values):
    with tf.Graph().as_default(), tf.Session() as session:
        clipped = session.run(clip_gradient_norms(pairs([tf.constant(values)]), 2.0)[0][0])
    norm = np.linalg.norm(values.ravel().astype(np.float64))
    np.testing.assert_allclose(clipped, values * min(1, 2.0 / max(norm, 1e-9)), rtol=2e-6, atol=1e-30)


@pytest.mark.parametrize("towers", [1, 2, 3])
def test_combining_is_the_published_sum(optim, session, towers):
    inputs = [optim[f"combine/towers{towers}/input{i}"] for i in range(3)]
    names = ["a", "b", "c", "none"]
    grads = [list(zip([*(tf.constant(x[tower]) for x in inputs), None], names, strict=True)) for tower in range(towers)]
    combined = combine_gradients(grads)
    assert [name for _, name in combined] == ["a", "b", "c"]
    for i, found in enumerate(session.run([gradient for gradient, _ in combined])):
        np.testing.assert_allclose(found, optim[f"combine/towers{towers}/output{i}"], rtol=1e-6)


@pytest.mark.parametrize(
    ("weights", "mode", "expected"),
    [(None, "sum", 111.0), ([3, 0, 1], "sum", 103.0), (None, "mean", 37.0), ([3, 0, 1], "mean", 103.0 / 4)],
)
def test_weights(session, weights, mode, expected):
    grads = [[(tf.constant([value]), "v")] for value in (1.0, 10.0, 100.0)]
    weights = weights and [tf.constant(weight) for weight in weights]
    ((combined, _),) = combine_gradients(grads, weights, mode)
    np.testing.assert_allclose(session.run(combined), [expected], rtol=1e-6)


def sparse(values, indices):
    return tf.IndexedSlices(tf.constant(values), tf.constant(indices), tf.constant([4, 1]))


def test_sparse_gradients_stay_sparse_among_themselves(session):
    grads = [[(sparse([[1.0], [2.0]], [0, 2]), "v")], [(sparse([[10.0]], [2]), "v")]]
    ((combined, _),) = combine_gradients(grads, [1.0, 0.5])
    assert isinstance(combined, tf.IndexedSlices)
    np.testing.assert_allclose(session.run(tf.convert_to_tensor(combined)), [[1], [0], [7], [0]])


def test_sparse_and_dense_become_dense(session):
    grads = [[(sparse([[1.0], [2.0]], [1, 1]), "v")], [(tf.ones([4, 1]), "v")]]
    ((combined, _),) = combine_gradients(grads)
    np.testing.assert_allclose(session.run(combined), [[1], [4], [1], [1]])


def test_refusals():
    with tf.Graph().as_default():
        one, variable = tf.constant(1.0), tf.Variable(0.0)
        with pytest.raises(ValueError, match="mode is 'median'; expected 'sum' or 'mean'"):
            combine_gradients([[(one, variable)]], mode="median")
        with pytest.raises(ValueError, match=r"weights has 2\b.*\b1$"):
            combine_gradients([[(one, variable)]], [1.0, 2.0])
        with pytest.raises(ValueError, match="tower_grads is empty"):
            combine_gradients([])


@pytest.mark.parametrize(("mode", "expected"), [("sum", 1 * 2 + 4 * 5), ("mean", (1 * 2 + 4 * 5) / 10)])
def test_a_gradient_that_some_towers_have_keeps_the_weights_of_those(session, mode, expected):
    towers = [[(tf.constant(value) if value else None, "v")] for value in (1.0, None, 4.0)]
    ((combined, _),) = combine_gradients(towers, [2.0, 3.0, 5.0], mode)
    assert session.run(combined) == pytest.approx(expected)


def test_average_gradients_is_the_mean_of_the_towers(session):
    towers = np.random.default_rng(3).normal(size=(4, 2, 3)).astype(np.float32)
    variables = ["first", "second"]
    averaged = average_gradients([list(zip(map(tf.constant, tower), variables, strict=True)) for tower in towers])
    assert [name for _, name in averaged] == variables
    for found, expected in zip(session.run([g for g, _ in averaged]), towers.mean(0), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_one_factor_for_all_gradients_by_the_global_norm() -> None:
    values = [np.array([3.0, 0.0], np.float32), None, np.array([[4.0]], np.float32)]
    with tf.Graph().as_default(), tf.Session() as session:
        pairs = [(None if value is None else tf.constant(value), i) for i, value in enumerate(values)]
        clipped = clip_by_global_norm(pairs, 1.0)
        kept = clip_by_global_norm(pairs, 5.5, norms=gradient_norms([g for g, _ in pairs]))
        assert clipped[1] == (None, 1)
        found = session.run([clipped[0][0], clipped[2][0], kept[0][0], kept[2][0]])
    for got, expected in zip(found, [[0.6, 0], [[0.8]], [3, 0], [[4]]], strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6)
    with pytest.raises(ValueError, match="positive"):
        clip_by_global_norm([], 0.0)
