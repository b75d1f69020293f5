"""The trace of a step says which operations take its time."""

from __future__ import annotations

from benchmarks.operations import trace
from yt8m.lazy import tf


def test_the_largest_product_takes_most_of_a_step():
    with tf.Graph().as_default(), tf.Session() as session:
        small, large = (tf.random.uniform([size, size]) for size in (8, 700))
        fetch = [tf.reduce_sum(tf.matmul(small, small)), tf.reduce_sum(tf.matmul(large, large, name="largest"))]
        milliseconds = trace(session, fetch, 3)
    kind, name = max(milliseconds, key=milliseconds.get)
    assert kind.endswith("MatMul")
    assert name.startswith("largest")
