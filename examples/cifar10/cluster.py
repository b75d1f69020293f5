"""The processes of a cluster: servers that hold variables until the last worker has said goodbye."""

from __future__ import annotations

from typing import Any

from absl import logging

from examples.cifar10.config import DeployConfig
from yt8m.deploy import DeploymentConfig
from yt8m.errors import RunError
from yt8m.lazy import tf


def start_server(config: DeployConfig, deployment: DeploymentConfig | None = None) -> tf.train.Server:
    """This process' server, with as many devices as its clones need.

    Raises:
      RunError: its port cannot be had.
    """
    hosts = {"ps": list(config.ps_hosts), "worker": list(config.worker_hosts)}
    session = tf.ConfigProto()
    if deployment is not None:
        session.device_count.update(deployment.session_config().device_count)
    try:
        return tf.train.Server(hosts, config.job_name, config.task_index, config=session)
    except tf.errors.OpError as error:
        where = hosts[config.job_name][config.task_index]
        raise RunError(
            f"cannot serve as {config.job_name} {config.task_index} at {where}: {error.message}"
        ) from error


def serve_variables(config: DeployConfig) -> None:
    """Holds variables until each worker has said goodbye."""
    server = start_server(config)
    logging.info("parameter server %d serves %d workers", config.task_index, len(config.worker_hosts))
    alone = tf.ConfigProto(device_filters=[f"/job:ps/task:{config.task_index}"])
    with tf.Graph().as_default():
        goodbye = _goodbyes(config, config.task_index).dequeue()
        with tf.Session(server.target, config=alone) as session:
            for _ in config.worker_hosts:
                session.run(goodbye)
    logging.info("all workers are done")


def say_goodbye(config: DeployConfig, server: tf.train.Server) -> None:
    """Tells each parameter server that this worker is through and will not come back."""
    own = f"/job:worker/task:{config.task_index}"
    with tf.Graph().as_default():
        goodbyes = [_goodbyes(config, task).enqueue(0) for task in range(len(config.ps_hosts))]
        # A worker that has ended before is not waited for.
        with tf.Session(server.target, config=tf.ConfigProto(device_filters=["/job:ps", own])) as session:
            session.run(goodbyes)


def _goodbyes(config: DeployConfig, task: int) -> Any:
    """The queue on a parameter server that all processes know by its name."""
    with tf.device(f"/job:ps/task:{task}/device:CPU:0"):
        return tf.FIFOQueue(len(config.worker_hosts), [tf.int32], [()], shared_name="goodbyes")
