"""`python collective_process.py '{"replica": 0, "addresses": [...], ...}'`: one replica of a training by all-reduce.

Runs steps until no replica has an example; then writes all variables, and what each step said, to `out`.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as np
from contract.model_cases import SIZES, C
from contract.model_session import tiny
from uneven_videos import Videos

from yt8m import deploy, graph, losses
from yt8m.config.train_config import OptimizerConfig
from yt8m.deploy.collective import Round
from yt8m.lazy import tf
from yt8m.video.modeler import VideoModeler


def load_weights(session: tf.Session) -> None:
    """Gives weights and their averages values by name, the same in every process."""
    generator = np.random.default_rng(1)
    for variable in sorted(tf.global_variables(), key=lambda one: one.op.name):
        if variable.dtype.base_dtype.is_floating and "/moving_" not in variable.op.name:
            variable.load(generator.normal(size=variable.shape) * 0.4, session)


def build(given: dict[str, Any], deployment: deploy.DeploymentConfig, all_reduce: Any, inputter: Videos) -> Any:
    """The graph of the model that `given` names."""
    modeler = VideoModeler(
        tiny(given["model"], given["settings"]), losses.get("CrossEntropyLoss")(), C, feature_sizes=SIZES
    )
    return graph.build(inputter, modeler, deployment, OptimizerConfig(**given["optimizer"]), synchrony=all_reduce)


def run(given: dict[str, Any]) -> None:
    """Trains as one replica."""
    replica, addresses = given["replica"], given["addresses"]
    deployment = deploy.DeploymentConfig(
        1, clone_on_cpu=True, replica_id=replica, num_replicas=len(addresses), all_reduce=True
    )
    config = deployment.session_config()
    server = tf.train.Server({"worker": addresses}, "worker", replica, config=config)
    team = deploy.AllReduce(replica, len(addresses), given.get("wire", "float32"))
    inputter = Videos(given["sizes"], given["is_frames"], len(addresses), 1).share(replica, len(addresses))
    ops = build(given, deployment, team, inputter)
    broadcast, digests = team.broadcast(tf.global_variables()), team.digests(tf.global_variables())
    with tf.Session(server.target, config=config) as session:
        session.run(tf.global_variables_initializer())
        session.run(ops.input.initializer, {ops.input.files: inputter.files()})
        if replica == 0:
            load_weights(session)
        session.run(broadcast, options=Round.BROADCAST.options())
        words = [[[1]]]
        while np.sum([row[0] for row in words[-1]]):
            fetched = (team.announced, team.waited(), ops.train_op)
            words.append(session.run(fetched, options=Round.STEP.options())[0].tolist())
        found = {variable.op.name: session.run(variable) for variable in tf.global_variables()}
        sums = session.run(digests, options=Round.CHECK.options())
    np.savez(given["out"], digests=sums, examples=np.array(words[1:])[:, :, 0], **found)


if __name__ == "__main__":
    with tf.Graph().as_default():
        run(json.loads(sys.argv[1]))
    sys.stdout.flush()
    os._exit(0)  # TensorFlow's server cannot be stopped
