"""NaN, infinity and values whose norm overflows in features: refused, or set to 0 and counted."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from yt8m.lazy import tf
from yt8m.readers.checks import gate, require, say
from yt8m.record_reader import LARGEST, UNFIT


class ZeroedCount:
    """How many values were set to 0, over all threads that parse."""

    def __init__(self) -> None:
        self.count, self._lock = 0, threading.Lock()

    def add(self, count: int) -> np.float32:
        """Counts, and gives the 0 that is put in place."""
        with self._lock:
            self.count += int(count)
        return np.float32(0)


def only_finite(
    values: tf.Tensor,
    name: str,
    video: Callable[[tf.Tensor], tf.Tensor],
    policy: str = "refuse",
    zeroed: ZeroedCount | None = None,
) -> tf.Tensor:
    """`values` without NaN, infinity and values beyond `LARGEST`, whose L2 norm could overflow.

    Args:
      values: float32 [R, size].
      name: of the feature.
      video: from the number of a row to the id of its video.
      policy: refuse, which fails and names the feature and the video; or zero.
      zeroed: counts what is set to 0.
    """

    def look_closely() -> tf.Tensor:
        good = tf.abs(values) <= LARGEST
        # Counted without logical_not: TensorFlow would make `>` of it and `<=`, and NaN is neither.
        bad = tf.shape(values, out_type=tf.int64)[1] - tf.math.count_nonzero(good, axis=1)
        if policy == "zero":
            # By Python, for what counts within the input cannot be fetched beside a batch; as a function
            # without a state, for others keep the input's position from being saved.
            zero = (
                tf.zeros([])
                if zeroed is None
                else tf.numpy_function(zeroed.add, [tf.reduce_sum(bad)], tf.float32, stateful=False)
            )
            return tf.where_v2(good, values, tf.reshape(zero, []))
        none = require(
            tf.equal(bad, 0),
            lambda row: say(
                *(
                    "video ",
                    video(row),
                    f": feature {name} has ",
                    bad[row],
                    f" values that are {UNFIT}",
                ),
                ", expected none: the L2 norm must fit a float32; mend the file, or set them to 0 by "
                "--nan_policy=zero",
            ),
        )
        return gate(values, [none])

    # The sum of squares is all that sound values cost: where it is this small, each of them is.
    half_sum = tf.nn.l2_loss(values)
    return tf.cond(half_sum < LARGEST**2 / 4, lambda: values, look_closely)
