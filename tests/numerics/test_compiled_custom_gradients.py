"""Functions with gradients of their own: the values and the gradients, and that nothing keeps their graphs."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from yt8m.lazy import tf
from yt8m.numerics.compiled import custom_gradient

X, Y = np.array([1.0, 2.0], "f4"), np.array([3.0, -1.0], "f4")


def scaled(x: Any, y: Any) -> Any:
    """(x y, x + y), whose gradient is ten times the right one for x, and a hundred times for y."""

    def gradient(of_product: Any, of_sum: Any) -> list[Any]:
        return [10 * (of_product * y + of_sum), 100 * (of_product * x + of_sum)]

    return (x * y, x + y), gradient


def plain(x: Any, y: Any) -> Any:
    return custom_gradient(scaled)(x, y)


def compiled(x: Any, y: Any) -> Any:
    return tf.function(plain, jit_compile=True, autograph=False)(x, y)


def in_a_loop(x: Any, y: Any) -> Any:
    """One turn of a loop."""
    start = (tf.zeros([], tf.int32), x, y)
    return tf.while_loop(lambda i, *_: i < 1, lambda i, a, b: (i + 1, *plain(a, b)), start)[1:]


@pytest.mark.parametrize("function", [plain, compiled, in_a_loop])
def test_values_and_gradients(function: Callable[..., Any]) -> None:
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        x, y = tf.constant(X), tf.constant(Y)
        product, total = function(x, y)
        slopes = tf.gradients([product, total], [x, y], [tf.constant([1.0, 2.0]), tf.constant([0.5, 0.25])])
        values = session.run([product, total, *slopes])
    np.testing.assert_allclose(values[0], X * Y)
    np.testing.assert_allclose(values[1], X + Y)
    np.testing.assert_allclose(values[2], 10 * (np.array([1, 2]) * Y + np.array([0.5, 0.25])))
    np.testing.assert_allclose(values[3], 100 * (np.array([1, 2]) * X + np.array([0.5, 0.25])))


def test_one_result_and_one_argument() -> None:
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        x = tf.constant(X)
        result = custom_gradient(lambda x: (x * x, lambda slope: slope * 7))(x)
        assert session.run(tf.gradients(result, x)[0]).tolist() == [7, 7]


@pytest.mark.parametrize("function", [plain, compiled, in_a_loop])
def test_the_graph_is_freed(function: Callable[..., Any]) -> None:
    with tf.Graph().as_default() as graph:
        x, y = tf.constant(X), tf.constant(Y)
        tf.gradients(function(x, y), [x, y])
    kept = weakref.ref(graph)
    del graph, x, y
    gc.collect()
    assert kept() is None
