"""Lets replicas take each step together, by TensorFlow's SyncReplicasOptimizer (arXiv:1604.00981)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from yt8m.lazy import tf

_EXAMPLES = "examples_of_step"


class Synchrony:
    """Combines the steps of all replicas into common steps on the mean gradient of all examples.

    Every replica weights its gradient by its number of examples. A replica that has read all its data goes on with
    weight 0, because otherwise the others would wait for it forever. A step without any example changes nothing; it
    tells every replica that all replicas have read their data.

    Args:
      replicas: number of replicas that take a step together.
      table: handle of a table from string to int64 that all replicas share.
    """

    def __init__(self, replicas: int, table: tf.Tensor) -> None:
        self.replicas, self._table = replicas, table
        self._optimizer: Any = None

    def wrap(self, optimizer: tf.train.Optimizer, examples: tf.Tensor) -> Any:
        """Wraps `optimizer`: `apply_gradients` of the result returns the op of a common step.

        Args:
          optimizer: applies the mean gradient.
          examples: int64 scalar, the number of examples in this replica's step.
        """
        self.counts = tf.placeholder_with_default(1.0, [], name="counts_in_common_step")
        self._optimizer = tf.train.SyncReplicasOptimizer(
            _OnMean(optimizer, self._store_examples), self.replicas, total_num_replicas=self.replicas
        )
        return _Weighted(self, self._optimizer, tf.cast(examples, tf.float32) * self.counts)

    def start(self, session: tf.Session, coord: tf.train.Coordinator, is_chief: bool) -> None:
        """Starts the common steps in a new session; threads of the chief sum the gradients of all replicas.

        Unlike TensorFlow's own hook, this puts no tokens into the queue at the start: with spare tokens, a replica
        could count twice in a step.
        """
        common = self._optimizer
        session.run(common.chief_init_op if is_chief else common.local_step_init_op)
        if is_chief:
            found = common.get_chief_queue_runner()
            # The last sum of the thread is never complete; it is cancelled when the session closes.
            ended = (tf.errors.OutOfRangeError, tf.errors.CancelledError)
            quiet = tf.train.QueueRunner(found.queue, found.enqueue_ops, found.close_op, found.cancel_op, ended)
            quiet.create_threads(session, coord, daemon=True, start=True)

    def read_examples(self, step_op: tf.Operation) -> None:
        """Creates `examples`, int64 scalar: the number of examples of the common step to which `step_op` belonged."""
        with tf.control_dependencies([step_op]):
            self.examples = tf.raw_ops.LookupTableFindV2(
                table_handle=self._table, keys=_EXAMPLES, default_value=tf.constant(-1, tf.int64)
            )

    def _store_examples(self, mean_examples: tf.Tensor) -> tf.Operation:
        total = tf.cast(tf.round(mean_examples * self.replicas), tf.int64)
        return tf.raw_ops.LookupTableInsertV2(table_handle=self._table, keys=_EXAMPLES, values=total)


class _Weighted:
    """The optimizer of a replica. It adds gradients times number of examples, and that number, to a common step."""

    def __init__(self, synchrony: Synchrony, common: Any, weight: tf.Tensor) -> None:
        self._synchrony, self._common, self._weight = synchrony, common, weight

    def apply_gradients(
        self, gradients: Sequence[tuple[Any, Any]], global_step: tf.Variable, name: str | None = None
    ) -> tf.Operation:
        weighted = [
            (tf.convert_to_tensor(gradient) * tf.cast(self._weight, gradient.dtype), variable)
            for gradient, variable in gradients
        ]
        # Only the name and the device of this variable are used, to tell the sum of examples from the sums of
        # gradients.
        with tf.device(global_step.device):
            place = tf.get_variable(_EXAMPLES, [], tf.float32, trainable=False, collections=[_EXAMPLES])
        step_op = self._common.apply_gradients([*weighted, (self._weight, place)], global_step, name)
        self._common.ready_for_local_init_op.mark_used()  # otherwise TensorFlow logs a warning, though the op is used
        self._synchrony.read_examples(step_op)
        return step_op.op if hasattr(step_op, "op") else step_op


class _OnMean:
    """The optimizer that SyncReplicasOptimizer calls. It turns means over replicas into means over examples."""

    def __init__(self, optimizer: tf.train.Optimizer, store_examples: Callable[[tf.Tensor], tf.Operation]) -> None:
        self._optimizer, self._store_examples = optimizer, store_examples

    def apply_gradients(
        self, gradients: Iterable[tuple[Any, Any]], global_step: tf.Variable, name: str | None = None
    ) -> tf.Operation:
        *pairs, (examples, _) = gradients

        def step() -> tf.Tensor:
            means = [(gradient / tf.cast(examples, gradient.dtype), variable) for gradient, variable in pairs]
            with tf.control_dependencies([self._optimizer.apply_gradients(means, global_step, name)]):
                return tf.constant(True)

        stepped = tf.cond(examples > 0, step, lambda: tf.constant(False))
        return tf.group(stepped, self._store_examples(examples))
