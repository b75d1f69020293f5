"""Optimizers by name and the learning rate by examples."""

from __future__ import annotations

from typing import Any

from yt8m.config import OptimizerConfig
from yt8m.errors import UsageError, suggestion
from yt8m.lazy import tf

# Momentum has no default in TensorFlow; the field trains with 0.9.
_ARGUMENTS: dict[str, dict[str, Any]] = {"MomentumOptimizer": {"momentum": 0.9}}


def learning_rate(config: OptimizerConfig, step: tf.Tensor, examples_per_step: int) -> tf.Tensor:
    """float32 scalar: base * decay ^ floor(examples seen / decay_examples), examples over all towers."""
    seen = step * examples_per_step
    return tf.train.exponential_decay(
        config.base_learning_rate,
        seen,
        config.learning_rate_decay_examples,
        config.learning_rate_decay,
        staircase=True,
    )


def create_optimizer(name: str, rate: tf.Tensor) -> tf.train.Optimizer:
    """The v1 optimizer class called `name` (AdamOptimizer, GradientDescentOptimizer, ...).

    Raises:
      UsageError: `tf.train` has no optimizer of that name.
    """
    found = getattr(tf.train, name, None)
    if not (isinstance(found, type) and issubclass(found, tf.train.Optimizer)) or name in _NOT_ALONE:
        names = [n for n in dir(tf.train) if n.endswith("Optimizer") and n not in _NOT_ALONE]
        raise UsageError(f"unknown optimizer {name!r}{suggestion(name, names)}. Known: {', '.join(names)}.")
    return found(rate, **_ARGUMENTS.get(name, {}))


# These need more than a learning rate.
_NOT_ALONE = frozenset({"Optimizer", "SyncReplicasOptimizer", "AdagradDAOptimizer"})
