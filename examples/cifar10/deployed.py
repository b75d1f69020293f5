"""The same training through `yt8m.deploy.deploy`: several clones here, or parameter servers and workers.

On one machine: `python -m examples.cifar10.deployed --num_gpus=2`. In a cluster each process is started
with `--job_name`, `--task_index` and the same `--ps_hosts` and `--worker_hosts`; the workers share the
variables and take their steps without waiting for one another.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from absl import logging

from examples.cifar10.config import DeployConfig
from examples.cifar10.data import DataSet, prepare
from examples.cifar10.inputter import CifarInputter
from examples.cifar10.modeler import tower_loss
from examples.cifar10.network import network
from examples.cifar10.train import last_step
from yt8m import deploy, graph, runner
from yt8m.command_line import flags, program
from yt8m.command_line.program import run_main
from yt8m.config.train_config import OptimizerConfig
from yt8m.deploy import DeployedModel, DeploymentConfig
from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.runner import StopSignals

_GRACE_SECONDS = 20.0  # first for the current step, then for saving


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program on `argv`, by default this process' own; returns the exit status."""
    return run_main("deployed.py", _run, argv)


def build(
    deployment: DeploymentConfig, inputter: CifarInputter, optimizer: OptimizerConfig
) -> tuple[tf.Operation, DeployedModel]:
    """One training step in the current graph: the op that takes it, and what `deploy` made.

    Each clone dequeues a batch of its own. Running the op also moves the averages of the weights.
    """
    with tf.device(deployment.variables_device()):
        step = tf.train.get_or_create_global_step()
    with tf.device(deployment.inputs_device()):
        iterator = tf.data.make_initializable_iterator(
            inputter.dataset(tf.constant(inputter.files()), inputter.batch_size)
        )
        # These run wherever a session is opened, after the variables are restored.
        tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)

    def model_fn() -> tf.Tensor:
        with tf.device(deployment.inputs_device()):
            batch = iterator.get_next()
        return tower_loss(network(batch.images), batch.labels).total

    examples = inputter.batch_size * deployment.num_clones * deployment.num_replicas
    rate = graph.learning_rate(optimizer, step.read_value(), examples)
    chosen = graph.create_optimizer(optimizer.optimizer, rate)
    with tf.variable_scope(
        tf.get_variable_scope(), caching_device=deployment.caching_device(), auxiliary_name_scope=False
    ):
        model = deploy.deploy(deployment, model_fn, optimizer=chosen, summarize_gradients=True)
    assert model.train_op is not None  # not None: there is an optimizer and a loss
    _, train_op = graph.create_averages(optimizer.moving_average_decay, step, model.train_op.op)
    return train_op, model


def train(config: DeployConfig, data: DataSet) -> int:
    """Trains to the last step, resuming from `train_dir`; in a cluster, acts as one of its workers.

    Returns:
      The exit status: 0, or 128 + signal after SIGTERM or ctrl-C. A signal ends the run as the last step does.
    """
    deployment, cluster = _deployment(config), config.cluster()
    devices = dict(deployment.session_config().device_count)
    server = runner.start_server(cluster, devices) if cluster else None
    inputter = data.training(config.batch_size, config.seed + deployment.replica_id)
    with tf.Graph().as_default():
        tf.set_random_seed(config.seed)
        train_op, model = build(deployment, inputter, config.optimizer())
        with (
            StopSignals(_GRACE_SECONDS) as signals,
            _event_files(),
            tf.train.MonitoredTrainingSession(
                master=server.target if server else "",
                is_chief=deployment.replica_id == 0,
                checkpoint_dir=config.train_dir,
                save_checkpoint_steps=config.save_checkpoint_steps,
                save_summaries_steps=config.save_summary_steps,
                log_step_count_steps=config.log_every_n_steps,
                config=_session_config(config, deployment),
                hooks=_hooks(config, data, model),
            ) as session,
        ):
            try:
                while not session.should_stop() and not signals.requested:
                    session.run(train_op)
            except tf.train.NanLossDuringTrainingError as error:
                raise RunError(f"{error} --base_learning_rate={config.base_learning_rate} may be too high.") from error
            signals.renew_grace()
    if signals.signal:
        return 128 + signals.signal
    if cluster:
        # Not after a signal: the parameter servers keep the variables for a restarted worker.
        runner.say_done(cluster, server)
    return 0


@contextlib.contextmanager
def _event_files() -> Iterator[None]:
    """Closes the event files of TensorFlow's hooks. The hooks leave them open, each with a thread."""
    try:
        yield
    finally:
        tf.summary.FileWriterCache.clear()


def _hooks(config: DeployConfig, data: DataSet, model: DeployedModel) -> list[tf.train.SessionRunHook]:
    losses = tf.train.LoggingTensorHook(
        {"loss": model.total_loss},
        every_n_iter=config.log_every_n_steps,
        formatter=lambda values: f"total loss = {values['loss']:.2f}",
    )
    finite = tf.train.NanTensorHook(model.total_loss)
    return [finite, tf.train.StopAtStepHook(last_step=last_step(config, data)), losses]


def _session_config(config: DeployConfig, deployment: DeploymentConfig) -> Any:
    settings = deployment.session_config()
    settings.log_device_placement = config.log_device_placement
    return settings


def _deployment(config: DeployConfig) -> DeploymentConfig:
    gpus = len(tf.config.list_physical_devices("GPU"))
    local, note = deploy.local(config.num_gpus, gpus)
    if note:
        logging.info(note)
    if not config.job_name:
        return local
    return dataclasses.replace(
        local,
        variables_on_clone=False,
        replica_id=config.task_index,
        num_replicas=len(config.worker_hosts),
        num_ps_tasks=len(config.ps_hosts),
    )


def _run(words: list[str]) -> int:
    purpose = "Trains on CIFAR-10 through deploy: on one machine, or as one process of a cluster."
    config: Any = flags.read(DeployConfig, "deployed.py", purpose, words)
    program.set_up_log()
    tf.logging.set_verbosity(tf.logging.INFO)  # the lines are those of TensorFlow's own hooks
    if config.job_name == "ps":
        runner.serve_variables(config.cluster())
    return train(config, prepare(config))


if __name__ == "__main__":
    sys.exit(main())
