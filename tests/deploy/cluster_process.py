"""One process of a cluster of one parameter server and one worker: `cluster_process.py ps|worker PS WORKER`.

The worker trains two clones for a few steps and prints what it saw as one line of JSON.
"""

from __future__ import annotations

import json
import sys

from linear_model import objective

from yt8m.deploy import DeploymentConfig, deploy
from yt8m.lazy import tf


def model():
    made = objective(tf.ones([2, 4]), tf.zeros([2, 3]))
    tf.losses.add_loss(made.loss)
    return made


def train(target):
    config = DeploymentConfig(2, spread_on_cpu=True, num_ps_tasks=1)
    with tf.variable_scope("", caching_device=config.caching_device()):
        deployed = deploy(config, model, optimizer=tf.train.AdamOptimizer(0.1))
    metadata = tf.RunMetadata()
    options = tf.RunOptions(output_partition_graphs=True)
    with tf.Session(target, config=config.session_config()) as session:
        session.run(tf.global_variables_initializer())
        losses = [float(session.run(deployed.train_op, options=options, run_metadata=metadata)) for _ in range(5)]
        step = int(session.run(tf.train.get_global_step()))
    nodes = {node.name: node.device for graph in metadata.partition_graphs for node in graph.node}
    print(json.dumps({"losses": losses, "step": step, "devices": nodes}), flush=True)


def main(job, ps, worker):
    device_count = {"CPU": 2} if job == "worker" else {"CPU": 1}
    server = tf.train.Server(
        {"ps": [ps], "worker": [worker]}, job_name=job, task_index=0, config=tf.ConfigProto(device_count=device_count)
    )
    if job == "ps":
        server.join()
    with tf.Graph().as_default():
        train(server.target)


if __name__ == "__main__":
    main(*sys.argv[1:])
