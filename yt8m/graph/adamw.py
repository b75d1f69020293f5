"""Adam with decoupled weight decay.

The class has its own file, because importing this file imports TensorFlow: the class derives from one of TensorFlow's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m.lazy import tf

_NAMES_WITHOUT_DECAY = ("bias", "beta", "gamma")  # a variable with one of these words in its own name does not decay


class AdamWOptimizer(tf.train.AdamOptimizer):
    """w <- w - rate * (weight_decay * w + Adam's step) (Loshchilov & Hutter 2019, algorithm 2, line 12).

    The paper multiplies the decay by a factor eta of the schedule. Here that factor is the learning rate, so that the
    decay follows the schedule too. Variables of rank 2 or more decay; vectors, biases and the parameters of batch norm
    do not. The slots have the names and meanings of Adam's, so each optimizer can resume from the other's checkpoint.

    Args:
      weight_decay: fraction of a weight that one step at learning rate 1 subtracts.
      columns: {name of a variable: bool [size of its last axis], which columns decay}; all columns of other variables
        decay.
    """

    def __init__(
        self, learning_rate: Any, weight_decay: float = 0.01, columns: Mapping[str, NDArray[np.bool_]] | None = None
    ) -> None:
        super().__init__(learning_rate, name="Adam")
        self._weight_decay, self._columns = weight_decay, columns or {}

    def _apply_dense(self, grad: tf.Tensor, var: Any) -> tf.Operation:
        with tf.control_dependencies(self._decay([grad], var)):
            return super()._apply_dense(grad, var)

    def _resource_apply_dense(self, grad: tf.Tensor, handle: Any) -> tf.Operation:
        with tf.control_dependencies(self._decay([grad], handle)):
            return super()._resource_apply_dense(grad, handle)

    def _apply_sparse(self, grad: tf.IndexedSlices, var: Any) -> tf.Operation:
        with tf.control_dependencies(self._decay([grad.values], var)):
            return super()._apply_sparse(grad, var)

    def _resource_apply_sparse(self, grad: tf.Tensor, handle: Any, indices: tf.Tensor) -> tf.Operation:
        with tf.control_dependencies(self._decay([grad], handle)):
            return super()._resource_apply_sparse(grad, handle, indices)

    def _decay(self, after: list[tf.Tensor], variable: Any) -> list[tf.Operation]:
        """The op that subtracts the decay from a variable, in a list; an empty list if the variable does not decay.

        Adam's step runs after this op. The decay does not change that step, because it does not read the weights.
        """
        if not (decays(variable) and self._weight_decay):
            return []
        rate = tf.cast(self._lr_t, variable.dtype.base_dtype)
        with tf.control_dependencies(after):
            decay = tf.identity(variable) * (rate * self._weight_decay)
            if variable.op.name in self._columns:
                decay *= self._columns[variable.op.name].astype(np.float32)
            return [variable.assign_sub(decay)]


def decays(variable: Any) -> bool:
    """Whether weight decay applies to `variable`: rank 2 or more, and no bias, beta or gamma in its own name."""
    own_name = variable.op.name.rpartition("/")[2].lower()
    return variable.shape.rank >= 2 and not any(word in own_name for word in _NAMES_WITHOUT_DECAY)
