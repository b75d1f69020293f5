"""Optimizers by name, the learning rate as a function of the examples read, and common steps of a cluster's replicas.

In a common step all replicas together apply one gradient, by TensorFlow's SyncReplicasOptimizer (arXiv:1604.00981).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m.config.train_config import OptimizerConfig
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.registry import Registry, arguments_of

# The registry holds paths, not classes, since loading a class imports TensorFlow. The constructors of these classes
# need no argument except a learning rate.
optimizers: Registry[Any] = Registry("optimizer")
for _name in (
    *("Adadelta", "Adagrad", "Adam", "Ftrl", "GradientDescent", "Momentum"),
    *("ProximalAdagrad", "ProximalGradientDescent", "RMSProp"),
):
    optimizers.register(f"yt8m.lazy:tf.train.{_name}Optimizer", f"{_name}Optimizer")
optimizers.register("yt8m.graph.adamw:AdamWOptimizer", "AdamWOptimizer")

# {name of an optimizer: arguments, besides the rate, for which its constructor has no default}. A momentum of 0.9 is
# usual.
_DEFAULT_ARGUMENTS: dict[str, dict[str, Any]] = {"MomentumOptimizer": {"momentum": 0.9}}

# {name of a variable: bool [size of its last axis], which of its columns learn}; all other variables are frozen.
Columns = Mapping[str, NDArray[np.bool_]]

_EXAMPLES = "examples_of_step"  # key of the number of examples of a common step, in the table that replicas share


def learning_rate(config: OptimizerConfig, step: tf.Tensor, examples_per_step: int) -> tf.Tensor:
    """float32 scalar: the learning rate of a step, that of the schedule times the factor of the linear warm-up.

    The schedule counts the examples of all towers before this step. With accumulation it counts the examples
    before the first batch of the group, so that all batches of one update share one rate. The warm-up also counts
    the examples of the update itself, since otherwise the first update would have a rate of 0.

    Args:
      config: the settings of the schedule and the warm-up.
      step: int64 scalar, the global step before this step.
      examples_per_step: batch size times number of towers (times number of replicas that take each step together).
    """
    group = config.accumulate_steps
    examples = step // group * (group * examples_per_step) if group > 1 else step * examples_per_step
    rate = _SCHEDULES[config.learning_rate_schedule](config, examples)
    if config.learning_rate_warmup_examples:
        examples_after_update = tf.cast(examples + group * examples_per_step, tf.float32)
        rate *= tf.minimum(examples_after_update / config.learning_rate_warmup_examples, 1.0)
    return rate


def _exponential(config: OptimizerConfig, examples: tf.Tensor) -> tf.Tensor:
    """base * decay ^ floor(examples / decay_examples): exponential decay in steps (staircase).

    These are the options `base_learning_rate`, `learning_rate_decay` and `learning_rate_decay_examples`.
    """
    return tf.train.exponential_decay(
        config.base_learning_rate,
        examples,
        config.learning_rate_decay_examples,
        config.learning_rate_decay,
        staircase=True,
    )


def _cosine(config: OptimizerConfig, examples: tf.Tensor) -> tf.Tensor:
    """base * (1 + cos(pi * t)) / 2 (Loshchilov & Hutter 2017, eq. 5).

    t rises from 0 at the end of the warm-up to 1 after `learning_rate_decay_examples` examples.
    """
    start, end = config.learning_rate_warmup_examples, config.learning_rate_decay_examples
    # This is float64, because float32 cannot represent every integer above 2^24, about 16 million examples.
    progress = tf.clip_by_value((tf.cast(examples, tf.float64) - start) / (end - start), 0.0, 1.0)
    return tf.cast(config.base_learning_rate * 0.5 * (1.0 + tf.cos(math.pi * progress)), tf.float32)


def _constant(config: OptimizerConfig, _: tf.Tensor) -> tf.Tensor:
    """The base rate at every step."""
    return tf.constant(config.base_learning_rate, tf.float32)


# {value of --learning_rate_schedule: function of the config and the number of examples read that returns the rate}
_SCHEDULES = {"exponential": _exponential, "cosine": _cosine, "constant": _constant}


def create_optimizer(
    name: str, rate: tf.Tensor, weight_decay: float | None = None, columns: Columns | None = None
) -> tf.train.Optimizer:
    """Creates an optimizer.

    Args:
      name: a name in `optimizers`, or `package.module:Class` for a class of the user.
      rate: the learning rate, the first argument of the class.
      weight_decay: the argument of that name; None for the class's default. Of `optimizers`, only AdamWOptimizer has
        this argument.
      columns: {name of a variable: bool [size of its last axis], which of its columns learn}, passed to a class whose
        constructor has this argument, so that the weights of other columns do not decay. None: everything learns.

    Raises:
      UsageError: no optimizer has that name; or a class of the user cannot be loaded, is not derived from
        tf.train.Optimizer, or takes no `weight_decay` although one is given.
    """
    check_optimizer(name, weight_decay)
    cls = optimizers.get(name) if ":" in name else optimizers.get(optimizers.get(name))
    arguments = {**_DEFAULT_ARGUMENTS.get(name, {}), "weight_decay": weight_decay}
    if "columns" in (arguments_of(cls) or ()):
        arguments["columns"] = columns
    return cls(rate, **{argument: value for argument, value in arguments.items() if value is not None})


def check_optimizer(name: str, weight_decay: float | None = None) -> None:
    """Refuses an unknown optimizer, or a class of the user that is no optimizer.

    TensorFlow is imported only to check a class of the user.

    Args:
      weight_decay: the value of --weight_decay; None if it is not given.
    """
    cls = optimizers.get(name)
    if ":" not in name:
        return
    if not (isinstance(cls, type) and issubclass(cls, tf.train.Optimizer)):
        raise UsageError(f"expected a class derived from tf.train.Optimizer; found {cls!r}.")
    if weight_decay is not None and "weight_decay" not in (arguments_of(cls) or ()):
        raise UsageError(
            f"the constructor of {cls.__name__} takes no weight_decay: leave --weight_decay={weight_decay:g} out."
        )


class Synchrony:
    """Combines the steps of all replicas into common steps on the mean gradient of all examples.

    Every replica weights its gradient by its number of examples. A replica that has read all its data continues with
    weight 0, because otherwise the others would wait for it forever. A step in which no replica has an example changes
    no variable; it tells every replica that all replicas have read their data.

    Args:
      replicas: number of replicas that take a step together.
      table: handle of a table from string to int64 that all replicas share. The number of examples of each common step
        is written to it.

    Attributes:
      replicas: the argument.
      counts: float32 scalar placeholder, made by `wrap`. By default it is 1; a replica that feeds 0 adds nothing to the
        common step.
      examples: int64 scalar, made by `apply_gradients`: the number of examples of the common step.
    """

    def __init__(self, replicas: int, table: tf.Tensor) -> None:
        self.replicas, self._table = replicas, table
        self._optimizer: Any = None

    def wrap(self, optimizer: tf.train.Optimizer, examples: tf.Tensor) -> Synchrony:
        """Makes this object apply gradients by `optimizer`; call this before `apply_gradients`.

        Args:
          optimizer: applies the mean gradient.
          examples: int64 scalar, the number of examples in this replica's step.

        Returns:
          This object, which is used in place of `optimizer`.
        """
        self.counts = tf.placeholder_with_default(1.0, [], name="counts_in_common_step")
        mean_optimizer = _MeanOverExamples(optimizer, self._store_examples)
        self._optimizer = tf.train.SyncReplicasOptimizer(
            mean_optimizer, self.replicas, total_num_replicas=self.replicas
        )
        self._weight = tf.cast(examples, tf.float32) * self.counts
        return self

    def apply_gradients(
        self, gradients: Sequence[tuple[Any, Any]], global_step: tf.Variable, name: str | None = None
    ) -> tf.Operation:
        """The op by which this replica takes part in a common step; also sets the attribute `examples`.

        The replica adds its gradients, multiplied by its number of examples, and this number to the sums of all
        replicas.

        Args:
          gradients: (gradient, variable) pairs of this replica's mean loss.
          global_step: incremented once by each common step.
          name: name of the op.
        """
        weighted = [
            (tf.convert_to_tensor(gradient) * tf.cast(self._weight, gradient.dtype), variable)
            for gradient, variable in gradients
        ]
        # SyncReplicasOptimizer keeps one sum for each variable, so the number of examples needs a variable, too. Only
        # the name and the device of this variable are used, never its value.
        with tf.device(global_step.device):
            key_variable = tf.get_variable(_EXAMPLES, [], tf.float32, trainable=False, collections=[_EXAMPLES])
        step_op = self._optimizer.apply_gradients([*weighted, (self._weight, key_variable)], global_step, name)
        self._optimizer.ready_for_local_init_op.mark_used()  # otherwise TensorFlow warns, though the op is used
        with tf.control_dependencies([step_op]):
            self.examples = tf.raw_ops.LookupTableFindV2(
                table_handle=self._table, keys=_EXAMPLES, default_value=tf.constant(-1, tf.int64)
            )
        return step_op.op if hasattr(step_op, "op") else step_op

    def start(self, session: tf.Session, coord: tf.train.Coordinator, is_chief: bool) -> None:
        """Starts the common steps in a new session; on the chief a thread sums the gradients of all replicas.

        Unlike TensorFlow's own hook, this puts no tokens into the queue at the start: with spare tokens, a replica
        could take part twice in one step.

        Args:
          session: the new session.
          coord: stops the thread of the chief.
          is_chief: whether this replica is the chief.
        """
        common = self._optimizer
        session.run(common.chief_init_op if is_chief else common.local_step_init_op)
        if is_chief:
            runner = common.get_chief_queue_runner()
            # The last sum of the thread is never complete; it is cancelled when the session closes.
            quiet_errors = (tf.errors.OutOfRangeError, tf.errors.CancelledError)
            quiet_runner = tf.train.QueueRunner(
                runner.queue, runner.enqueue_ops, runner.close_op, runner.cancel_op, quiet_errors
            )
            quiet_runner.create_threads(session, coord, daemon=True, start=True)

    def _store_examples(self, mean_examples: tf.Tensor) -> tf.Operation:
        """The op that writes the number of examples of a common step to the table, from their mean per replica."""
        total = tf.cast(tf.round(mean_examples * self.replicas), tf.int64)
        return tf.raw_ops.LookupTableInsertV2(table_handle=self._table, keys=_EXAMPLES, values=total)


class _MeanOverExamples:
    """The optimizer that SyncReplicasOptimizer calls; turns means over the replicas into means over the examples."""

    def __init__(self, optimizer: tf.train.Optimizer, store_examples: Callable[[tf.Tensor], tf.Operation]) -> None:
        self._optimizer, self._store_examples = optimizer, store_examples

    def apply_gradients(
        self, gradients: Iterable[tuple[Any, Any]], global_step: tf.Variable, name: str | None = None
    ) -> tf.Operation:
        """The op of the step."""
        *pairs, (examples, _) = gradients

        def apply_means() -> tf.Tensor:
            means = [(gradient / tf.cast(examples, gradient.dtype), variable) for gradient, variable in pairs]
            with tf.control_dependencies([self._optimizer.apply_gradients(means, global_step, name)]):
                return tf.constant(True)

        is_applied = tf.cond(examples > 0, apply_means, lambda: tf.constant(False))
        return tf.group(is_applied, self._store_examples(examples))
