"""The trace of a step says which operations take its time."""

from __future__ import annotations

from benchmarks.operations import trace
from yt8m.lazy import tf


def test_the_largest_product_takes_more_than_a_small_one():
    with tf.Graph().as_default(), tf.Session() as session:
        small, large = (tf.random.uniform([size, size]) for size in (8, 1000))
        fetch = [tf.reduce_sum(tf.matmul(small, small)), tf.reduce_sum(tf.matmul(large, large, name="largest"))]
        milliseconds = trace(session, fetch, 3)
    products = {name: value for (kind, name), value in milliseconds.items() if kind.endswith("MatMul")}
    assert len(products) == 2
    assert max(products, key=products.get).startswith("largest")
