"""The least that a row could take: the model's own matrix products at their real shapes, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.measure import Sample, timed
from benchmarks.products import Product
from yt8m.lazy import tf


class Floor:
    """Runs the products of a step one after the other, in a session of its own in this process.

    Args:
      products: in order.
      steps: steps in a sample.
      precision: of operands and results; operands are created in it, so no cast is timed.
    """

    def __init__(self, products: Sequence[Product], steps: int = 20, precision: str = "float32") -> None:
        self._steps = steps
        with tf.Graph().as_default():
            with tf.variable_scope("", reuse=tf.AUTO_REUSE):
                elements: list[tf.Tensor] = []
                for product in products:
                    with tf.control_dependencies(elements[-1:]):
                        elements.append(_element(product, tf.as_dtype(precision)))
            # Fetch an element of each product: TensorFlow does not compute a product that nothing uses.
            self._fetch = tf.add_n(elements)
            self._session = tf.Session()
            self._session.run(tf.global_variables_initializer())
        self._run(2)

    def __call__(self) -> Sample:
        """Seconds of one step."""
        self._run(1)
        return timed(lambda: self._run(self._steps), self._steps)()

    def _run(self, steps: int) -> None:
        for _ in range(steps):
            self._session.run(self._fetch)


def _element(product: Product, dtype: tf.DType) -> tf.Tensor:
    """Computes a product and returns one element of it."""
    parallel = [product.side_by_side] if product.side_by_side else []
    left = _stored_matrix([*parallel, product.rows, product.inner], dtype)
    right = _stored_matrix([*parallel, product.inner, product.columns], dtype)
    if product.in_turn == 1:
        return tf.cast(tf.reshape(tf.matmul(left, right), [-1])[0], tf.float32)

    def step(time: tf.Tensor, element: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        # The element goes into the next operand, so that no two run at once and none is hoisted out.
        operand = left + tf.cast(1e-30 * element, dtype)
        return time + 1, tf.cast(tf.matmul(operand, right)[0, 0], tf.float32)

    return tf.while_loop(lambda time, _: time < product.in_turn, step, [tf.constant(0), tf.zeros([])])[1]


def _stored_matrix(shape: list[int], dtype: tf.DType) -> tf.Tensor:
    """A matrix that is stored before the clock starts; products of the same shape share it."""
    variable = tf.get_variable(
        f"matrix_{'x'.join(map(str, shape))}",
        shape,
        dtype,
        initializer=tf.random_normal_initializer(),
        use_resource=True,
    )
    return tf.identity(variable.read_value())
