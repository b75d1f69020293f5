"""The least that a row could take: the model's own matrix products at their real shapes, and nothing else."""

from __future__ import annotations

from benchmarks.measure import Clock, Sample
from yt8m.lazy import tf


class DenseFloor:
    """The products of one dense layer, run in a session of their own in this process.

    Args:
      batch, inputs, outputs: the layer's shape.
      training: forward and the gradient of the weights (two products); else forward alone.
      steps: steps in a sample.
    """

    def __init__(self, batch: int, inputs: int, outputs: int, training: bool, steps: int = 20) -> None:
        self._steps = steps
        with tf.Graph().as_default():
            features = _held([batch, inputs])
            products = [tf.matmul(features, _held([inputs, outputs]))]
            if training:
                # After the first, as in a step.
                with tf.control_dependencies(products):
                    slopes = tf.identity(_held([batch, outputs]))
                products.append(tf.matmul(features, slopes, transpose_a=True))
            # An element each: a product that nothing looks at is not computed.
            self._fetches = [product[0, 0] for product in products]
            self._session = tf.Session()
            self._session.run(tf.global_variables_initializer())
        self._run(3)

    def __call__(self) -> Sample:
        """Seconds of one step."""
        self._run(1)
        clock = Clock()
        self._run(self._steps)
        return clock.sample(self._steps)

    def _run(self, steps: int) -> None:
        for _ in range(steps):
            self._session.run(self._fetches)


def _held(shape: list[int]) -> tf.Tensor:
    return tf.get_variable(
        f"held_{'x'.join(map(str, shape))}",
        shape,
        initializer=tf.random_normal_initializer(),
        use_resource=True,
    )
