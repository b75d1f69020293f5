"""Operations compiled to one pass, and the softplus that is cheap in it."""

from __future__ import annotations

import numpy as np
import pytest

from yt8m.lazy import tf
from yt8m.numerics.compiled import add_biases, fused, is_worth_compiling, softplus

WIDE, NARROW = 600, 60


def values(columns: int) -> np.ndarray:
    return np.random.default_rng(3).normal(size=(7, columns)).astype(np.float32)


def scaled(left: tf.Tensor, right: tf.Tensor | None, factor: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    shifted = left if right is None else left + right
    return factor * tf.sigmoid(shifted), tf.reduce_sum(shifted, 1)


@pytest.mark.parametrize("columns", [NARROW, WIDE])
@pytest.mark.parametrize("has_right", [True, False])
def test_gives_what_the_operations_give(columns: int, has_right: bool) -> None:
    left, right = values(columns), values(columns)[::-1] if has_right else None
    with tf.Graph().as_default(), tf.Session() as session:
        found = session.run(fused(scaled, tf.constant(left), right, tf.constant(3.0)))
    whole = left if right is None else left + right
    np.testing.assert_allclose(found[0], 3 / (1 + np.exp(-whole.astype(np.float64))), rtol=1e-6)
    np.testing.assert_allclose(found[1], whole.astype(np.float64).sum(1), atol=1e-4)


@pytest.mark.parametrize(("columns", "is_compiled"), [(WIDE, True), (NARROW, False)])
def test_only_wide_tensors_are_worth_it(columns: int, is_compiled: bool) -> None:
    with tf.Graph().as_default() as graph:
        tensor = tf.placeholder(tf.float32, [None, columns])
        fused(tf.sigmoid, tensor)
        kinds = {operation.type for operation in graph.get_operations()}
    assert is_worth_compiling(tensor) is is_compiled
    assert ("Sigmoid" in kinds) is not is_compiled


def test_not_on_a_gpu_nor_where_the_width_is_open() -> None:
    with tf.Graph().as_default():
        with tf.device("/gpu:0"):
            assert not is_worth_compiling(tf.placeholder(tf.float32, [None, WIDE]))
        assert not is_worth_compiling(tf.placeholder(tf.float32, [None, None]))
        assert not is_worth_compiling(tf.placeholder(tf.float32))


def test_the_number_of_rows_may_change() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        rows = tf.placeholder(tf.float32, [None, WIDE])
        doubled = fused(lambda tensor: 2.0 * tensor, rows)
        for count in (1, 3, 0):
            given = values(WIDE)[:count]
            np.testing.assert_array_equal(session.run(doubled, {rows: given}), 2 * given)


def test_gradients_go_through() -> None:
    given = values(WIDE)
    with tf.Graph().as_default(), tf.Session() as session:
        tensor = tf.constant(given)
        total = tf.reduce_sum(fused(lambda one: tf.reduce_sum(one * one, 1), tensor))
        found = session.run(tf.gradients(total, tensor)[0])
    np.testing.assert_allclose(found, 2 * given, rtol=1e-6)


def test_on_a_second_tower_of_the_cpu() -> None:
    given = values(WIDE)
    with tf.Graph().as_default():
        with tf.device("/cpu:1"):
            doubled = fused(lambda tensor: 2.0 * tensor, tf.constant(given))
        with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
            np.testing.assert_array_equal(session.run(doubled), 2 * given)


def test_from_a_meta_graph() -> None:
    given = values(WIDE)
    with tf.Graph().as_default():
        tensor = tf.placeholder(tf.float32, [None, WIDE], name="given")
        tf.identity(fused(tf.sigmoid, tensor), name="found")
        meta_graph = tf.train.export_meta_graph()
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(meta_graph)
        found = session.run("found:0", {"given:0": given})
    np.testing.assert_allclose(found, 1 / (1 + np.exp(-given)), rtol=1e-6)


def test_is_exact_from_tail_to_tail() -> None:
    given = np.concatenate([np.linspace(-86, 86, 20001), [0.0, -0.0, 1e-7, -1e-7]]).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        tensor = tf.constant(given)
        value, gradient = session.run([softplus(tensor), tf.gradients(softplus(tensor), tensor)[0]])
    exact = np.logaddexp(0, given.astype(np.float64))
    # exp itself is off by the rounding of its argument.
    np.testing.assert_allclose(value, exact, rtol=3e-7)
    np.testing.assert_allclose(gradient, np.exp(given - exact), rtol=1e-5)


@pytest.mark.parametrize(("given", "expected"), [(0.0, 0.5), (np.inf, 1.0), (-np.inf, 0.0)])
def test_the_gradient_where_a_kink_would_be_and_at_the_ends(given: float, expected: float) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tensor = tf.constant(given)
        assert session.run(tf.gradients(softplus(tensor), tensor)[0]) == expected


def test_nan_stays() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        assert np.isnan(session.run(softplus(tf.constant(np.nan))))


def test_a_sum_of_rounded_products_and_biases_is_computed_in_the_pass_that_reads_it_bit_for_bit() -> None:
    labels, slopes = values(WIDE) > 0, values(WIDE)[::-1]
    with tf.Graph().as_default(), tf.Session() as session:
        products, biases = tf.constant(values(WIDE), tf.bfloat16), tf.constant(values(WIDE)[0])
        total = add_biases(tf.cast(products, tf.float32), biases)
        plain = tf.cast(products, tf.float32) + biases
        found, expected = (
            (fused(lambda logits, labels: tf.sigmoid(logits) - labels, logits, tf.constant(labels, tf.float32)), logits)
            + tuple(tf.gradients(logits, [products, biases], tf.constant(slopes)))
            for logits in (total, plain)
        )
        for ours, theirs in zip(session.run(found), session.run(expected), strict=True):
            np.testing.assert_array_equal(ours, theirs)
        needed = {name.split("/")[0] for name in ancestors(found[0])}
    assert total.op.name not in needed


def ancestors(tensor: tf.Tensor) -> set[str]:
    """The names of all operations that compute a tensor."""
    names = {tensor.op.name}
    for source in tensor.op.inputs:
        names |= ancestors(source)
    return names


@pytest.mark.parametrize("dtype", [tf.float32, tf.float16])
def test_other_sums_are_additions(dtype: tf.DType) -> None:
    with tf.Graph().as_default():
        products, biases = tf.cast(tf.constant(values(NARROW), dtype), tf.float32), tf.zeros([NARROW])
        assert add_biases(products, biases).op.type == "AddV2"
