"""Creates optimizers by name, and the learning rate as a function of the examples seen."""

from __future__ import annotations

import math
from typing import Any

from yt8m.config.train_config import OptimizerConfig
from yt8m.errors import UsageError, suggestion
from yt8m.lazy import tf

# TensorFlow has no default for momentum; 0.9 is usual.
_ARGUMENTS: dict[str, dict[str, Any]] = {"MomentumOptimizer": {"momentum": 0.9}}

WEIGHT_DECAY = 0.01  # AdamW's default


def learning_rate(config: OptimizerConfig, step: tf.Tensor, examples_per_step: int) -> tf.Tensor:
    """float32 scalar: the schedule of `config` at this step, times its linear warm-up.

    The schedule counts the examples of all towers before this step. With accumulation it counts the examples
    before the first batch of the group, so that all batches of one update share one rate. The warm-up also counts
    the examples of the update itself, since otherwise the first update would have a rate of 0.

    Args:
      config: the settings of the schedule.
      step: int64 scalar, the global step at the start.
      examples_per_step: batch size times towers.
    """
    group = config.accumulate_steps
    seen = step // group * (group * examples_per_step) if group > 1 else step * examples_per_step
    rate = _SCHEDULES[config.learning_rate_schedule](config, seen)
    if config.learning_rate_warmup_examples:
        after = tf.cast(seen + group * examples_per_step, tf.float32)
        rate *= tf.minimum(after / config.learning_rate_warmup_examples, 1.0)
    return rate


def _exponential(config: OptimizerConfig, seen: tf.Tensor) -> tf.Tensor:
    """base * decay ^ floor(seen / decay_examples)."""
    return tf.train.exponential_decay(
        config.base_learning_rate, seen, config.learning_rate_decay_examples, config.learning_rate_decay, staircase=True
    )


def _cosine(config: OptimizerConfig, seen: tf.Tensor) -> tf.Tensor:
    """base * (1 + cos(pi * t)) / 2, t from 0 after the warm-up to 1 (Loshchilov & Hutter 2017, eq. 5)."""
    start, end = config.learning_rate_warmup_examples, config.learning_rate_decay_examples
    # In float64: float32 cannot represent every integer above 2^24, about 16 million examples.
    progress = tf.clip_by_value((tf.cast(seen, tf.float64) - start) / (end - start), 0.0, 1.0)
    return tf.cast(config.base_learning_rate * 0.5 * (1.0 + tf.cos(math.pi * progress)), tf.float32)


def _constant(config: OptimizerConfig, _: tf.Tensor) -> tf.Tensor:
    return tf.constant(config.base_learning_rate, tf.float32)


_SCHEDULES = {"exponential": _exponential, "cosine": _cosine, "constant": _constant}


def create_optimizer(name: str, rate: tf.Tensor, weight_decay: float | None = None) -> tf.train.Optimizer:
    """The v1 optimizer class called `name` (AdamOptimizer, GradientDescentOptimizer, ...), or AdamW.

    Args:
      name: a class in `tf.train`, or AdamWOptimizer.
      rate: the learning rate.
      weight_decay: the weight decay of AdamW; None for 0.01.

    Raises:
      UsageError: `tf.train` has no optimizer of that name.
    """
    if name == "AdamWOptimizer":
        from yt8m.graph.adamw import AdamWOptimizer

        return AdamWOptimizer(rate, WEIGHT_DECAY if weight_decay is None else weight_decay)
    found = getattr(tf.train, name, None)
    if not (isinstance(found, type) and issubclass(found, tf.train.Optimizer)) or name in _NOT_ALONE:
        names = [n for n in dir(tf.train) if n.endswith("Optimizer") and n not in _NOT_ALONE]
        names.append("AdamWOptimizer")
        raise UsageError(f"unknown optimizer {name!r}{suggestion(name, names, '.')} Known: {', '.join(names)}.")
    return found(rate, **_ARGUMENTS.get(name, {}))


# These optimizers need more arguments than a learning rate.
_NOT_ALONE = frozenset({"Optimizer", "SyncReplicasOptimizer", "AdagradDAOptimizer"})
