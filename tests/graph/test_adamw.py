"""AdamW against its formula in float64."""

from __future__ import annotations

import numpy as np
import pytest

from yt8m.config.train_config import OptimizerConfig
from yt8m.errors import UsageError
from yt8m.graph.optimizers import create_optimizer
from yt8m.lazy import tf

RATE, DECAY, STEPS = 0.1, 0.3, 4
SHAPES = {"weights": (5, 3), "hidden/biases": (2, 3), "bn/gamma": (1, 3), "vector": (3,)}


def adamw(weight: np.ndarray, gradients: list[np.ndarray], decay: float) -> np.ndarray:
    """Algorithm 2 of Loshchilov & Hutter (2019), with eta = the learning rate and TensorFlow's epsilon."""
    weight, m, v = weight.astype(np.float64), 0.0, 0.0
    for step, gradient in enumerate(gradients, start=1):
        m, v = 0.9 * m + 0.1 * gradient, 0.999 * v + 0.001 * gradient**2
        rate = RATE * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
        weight = weight - rate * m / (np.sqrt(v) + 1e-8) - RATE * decay * weight
    return weight


def run(name: str, resource: bool, decay: float | None = None, steps: int = STEPS) -> dict[str, np.ndarray]:
    generator = np.random.default_rng(0)
    starts = {name: generator.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
    with tf.Graph().as_default(), tf.Session() as session:
        variables = [tf.get_variable(name, initializer=value, use_resource=resource) for name, value in starts.items()]
        gradients = [tf.placeholder(tf.float32, variable.shape) for variable in variables]
        optimizer = create_optimizer(name, tf.constant(RATE), decay or None)
        step = optimizer.apply_gradients(list(zip(gradients, variables, strict=True)))
        session.run(tf.global_variables_initializer())
        given = [[generator.normal(size=v.shape).astype(np.float32) for v in variables] for _ in range(steps)]
        for values in given:
            session.run(step, dict(zip(gradients, values, strict=True)))
        found = {variable.op.name: session.run(variable) for variable in variables}
        names = {variable.op.name for variable in tf.global_variables()}
    for place, (name, start) in enumerate(starts.items()):
        by_name = DECAY if decay is None else decay
        own = by_name if name == "weights" else 0.0
        expected = adamw(start, [values[place] for values in given], own)
        np.testing.assert_allclose(found[name], expected, atol=2e-6, err_msg=name)
    return names


@pytest.mark.parametrize("resource", [True, False])
def test_matrices_decay_and_the_rest_is_adam(resource: bool) -> None:
    names = run("AdamWOptimizer", resource, DECAY)
    assert names == run("AdamOptimizer", resource, 0.0)  # the same slots: either goes on from the other


def test_rows_of_a_lookup_decay_with_the_whole_table() -> None:
    table = np.random.default_rng(1).normal(size=(4, 2)).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.get_variable("table", initializer=table)
        loss = tf.reduce_sum(tf.gather(variable, [2]))
        step = create_optimizer("AdamWOptimizer", tf.constant(RATE), DECAY).minimize(loss)
        session.run(tf.global_variables_initializer())
        session.run(step)
        found = session.run(variable)
    gradient = np.zeros((4, 2))
    gradient[2] = 1
    np.testing.assert_allclose(found, adamw(table, [gradient], DECAY), atol=1e-6)


def test_decay_without_adamw_is_refused() -> None:
    assert OptimizerConfig(optimizer="AdamWOptimizer", weight_decay=0.1).weight_decay == 0.1
    with pytest.raises(UsageError, match=r"weight_decay=0\.1 .*--optimizer=AdamOptimizer"):
        OptimizerConfig(weight_decay=0.1)
    with pytest.raises(UsageError, match=r"weight_decay .*at most 1\b"):
        OptimizerConfig(optimizer="AdamWOptimizer", weight_decay=2.0)
