"""The learning rate as a function of the examples seen, against formulas in float64."""

from __future__ import annotations

import math
import sys
import types
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import examples

from yt8m.config.train_config import OptimizerConfig
from yt8m.errors import UsageError
from yt8m.graph.optimizers import check_optimizer, create_optimizer, learning_rate, optimizers
from yt8m.lazy import tf


def rates(config: OptimizerConfig, steps: list[int], examples_per_step: int) -> list[float]:
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.placeholder(tf.int64, [])
        rate = learning_rate(config, step, examples_per_step)
        assert rate.dtype == tf.float32
        return [session.run(rate, {step: number}) for number in steps]


def expected(config: OptimizerConfig, step: int, examples: int) -> float:
    group = config.accumulate_steps
    seen = step // group * group * examples
    base, end = config.base_learning_rate, config.learning_rate_decay_examples
    warmup = config.learning_rate_warmup_examples
    if config.learning_rate_schedule == "exponential":
        base *= config.learning_rate_decay ** math.floor(seen / end)
    elif config.learning_rate_schedule == "cosine":
        progress = min(max((seen - warmup) / (end - warmup), 0), 1)
        base *= 0.5 * (1 + math.cos(math.pi * progress))
    return base * min(1, (seen + group * examples) / warmup) if warmup else base


@pytest.mark.parametrize("schedule", ["exponential", "cosine", "constant"])
@examples(15)
@given(
    warmup=st.sampled_from([0, 1, 1000, 5000]),
    group=st.integers(1, 3),
    examples=st.sampled_from([1, 64, 2048]),
    step=st.integers(0, 20_000),
)
def test_every_schedule_is_its_formula(schedule, warmup, group, examples, step) -> None:
    config = OptimizerConfig(
        learning_rate_schedule=schedule,
        learning_rate_warmup_examples=warmup,
        learning_rate_decay_examples=100_000,
        learning_rate_decay=0.8,
        accumulate_steps=group,
    )
    found = rates(config, [step], examples)[0]
    np.testing.assert_allclose(found, expected(config, step, examples), rtol=2e-5, atol=1e-9)


def test_warm_up_and_cosine_by_numbers() -> None:
    config = OptimizerConfig(
        base_learning_rate=1.0,
        learning_rate_schedule="cosine",
        learning_rate_warmup_examples=40,
        learning_rate_decay_examples=80,
    )
    found = rates(config, [0, 1, 2, 3, 4, 5, 6, 7, 8, 100], 10)
    quarter = 0.5 * (1 + math.cos(math.pi / 4))
    np.testing.assert_allclose(found, [0.25, 0.5, 0.75, 1, 1, quarter, 0.5, 1 - quarter, 0, 0], rtol=1e-6, atol=1e-7)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="must be below --learning_rate_decay_examples"):
        OptimizerConfig(
            learning_rate_schedule="cosine", learning_rate_warmup_examples=10, learning_rate_decay_examples=10
        )
    with pytest.raises(UsageError, match=r"learning_rate_schedule .*exponential, cosine"):
        OptimizerConfig(learning_rate_schedule="cosin")
    with pytest.raises(UsageError, match=r"learning_rate_warmup_examples .*at least 0\b"):
        OptimizerConfig(learning_rate_warmup_examples=-1)


def test_every_listed_optimizer_can_be_made_and_unknown_ones_are_refused() -> None:
    with tf.Graph().as_default():
        made = {name: create_optimizer(name, tf.constant(0.1)) for name in optimizers.names()}
    assert {name: type(optimizer).__name__ for name, optimizer in made.items()} == {name: name for name in made}
    assert len(made) == 10
    with pytest.raises(UsageError, match="unknown optimizer 'Adam'; did you mean AdamOptimizer"):
        check_optimizer("Adam")


def test_an_optimizer_may_be_a_class_of_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    class Halving(tf.train.GradientDescentOptimizer):  # type: ignore[misc]
        """Takes half a step."""

        def __init__(self, learning_rate: Any) -> None:
            super().__init__(learning_rate / 2)

    class Decaying(Halving):
        """Also shrinks the weights; here it only notes by how much."""

        def __init__(self, learning_rate: Any, weight_decay: float = 0.5) -> None:
            super().__init__(learning_rate)
            self.weight_decay = weight_decay

    own = types.ModuleType("own_steps")
    for cls in (Halving, Decaying):
        setattr(own, cls.__name__, cls)
    monkeypatch.setitem(sys.modules, "own_steps", own)
    with tf.Graph().as_default(), tf.Session() as session:
        weight = tf.Variable(3.0)
        step = create_optimizer("own_steps:Halving", tf.constant(0.1)).minimize(weight * weight)
        session.run(tf.global_variables_initializer())
        session.run(step)
        assert session.run(weight) == pytest.approx(3 - 0.05 * 6)
        rate = tf.constant(0.1)
        assert create_optimizer("own_steps:Decaying", rate).weight_decay == 0.5
        assert create_optimizer("own_steps:Decaying", rate, 0.25).weight_decay == 0.25
    with pytest.raises(UsageError, match=r"takes no weight_decay: leave --weight_decay=0\.25 out"):
        check_optimizer("own_steps:Halving", 0.25)
    with pytest.raises(UsageError, match=r"derived from tf\.train\.Optimizer"):
        check_optimizer("os:sep")
