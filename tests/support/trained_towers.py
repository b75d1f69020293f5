"""Trains a tiny model for a few steps on some towers, for tests that compare one placement of towers with another."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from contract.model_cases import SIZES, C
from contract.model_session import tiny
from uneven_videos import Videos, quick

from yt8m import deploy, graph, losses
from yt8m.config.train_config import DeviceConfig, OptimizerConfig
from yt8m.lazy import tf
from yt8m.video.modeler import VideoModeler

SGD = OptimizerConfig(
    optimizer="GradientDescentOptimizer", base_learning_rate=0.5, clip_gradient_norm=0, regularization_penalty=0.1
)
STEPS = 5


def trained(
    name: str,
    settings: Mapping[str, Any],
    towers: int,
    sizes: list[int],
    *,
    steps: int = STEPS,
    config: OptimizerConfig = SGD,
    deployment: deploy.DeploymentConfig | None = None,
    **options: Any,
) -> dict[str, np.ndarray]:
    """All variables after some steps, and before them as `first/NAME`; from the same weights each time."""
    model = tiny(name, settings)
    modeler = VideoModeler(model, losses.get("CrossEntropyLoss")(), C, feature_sizes=SIZES)
    inputter = Videos(sizes, model.level == "frame", towers)
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        deployment = deployment or deploy.DeploymentConfig(num_clones=towers, spread_on_cpu=True)
        ops = graph.build(inputter, modeler, deployment, config, DeviceConfig(**options))
        with tf.Session(config=quick(deployment)) as session:
            session.run(tf.global_variables_initializer())
            session.run(ops.input.initializer, {ops.input.files: inputter.files()})
            generator = np.random.default_rng(1)
            for variable in sorted(tf.trainable_variables(), key=lambda v: v.op.name):
                variable.load(generator.normal(size=variable.shape) * 0.4, session)
            first = {f"first/{v.op.name}": v.eval(session) for v in tf.trainable_variables()}
            reported = [session.run([ops.label_loss, ops.train_op])[0] for _ in range(steps)]
            values = {v.op.name: v.eval(session) for v in tf.global_variables()}
    return {**first, **values, "losses": np.array(reported)}


def distance(one: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> float:
    """The largest difference of any value of any variable."""
    assert sorted(one) == sorted(other)
    return max(float(np.abs(one[name] - other[name]).max()) for name in one)


def weights(values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """What was trained."""
    names = [name.removeprefix("first/") for name in values if name.startswith("first/")]
    return {name: values[name] for name in names}


def moved(values: Mapping[str, np.ndarray]) -> float:
    """How far the weight that moved most went."""
    return max(float(np.abs(now - values[f"first/{name}"]).max()) for name, now in weights(values).items())
