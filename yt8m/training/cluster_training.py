"""Training in the role that TF_CONFIG gives this process: chief, worker, parameter server or evaluator."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

from absl import logging

from yt8m import options, runner
from yt8m.config import run_dir
from yt8m.config.train_config import TrainConfig
from yt8m.deploy import cluster as clusters
from yt8m.deploy.cluster import ClusterConfig
from yt8m.errors import RunError, UsageError
from yt8m.records.opened_data import OpenedData
from yt8m.runner import checkpoints
from yt8m.runner.cluster import exchange, failures, servers
from yt8m.runner.cluster.peers import answering_at, answers
from yt8m.runner.run_config import check_for_cluster
from yt8m.training import training_run, training_workload

POLL_SECONDS = 2.0  # between two looks of the evaluator for a new checkpoint
_SERVER_PATIENCE = 20.0  # a replica that cannot begin waits for so long for the servers that it tells of the error


def train(config: TrainConfig, data: OpenedData | None = None) -> int:
    """Trains alone or in the role that TF_CONFIG gives this process; returns the exit status.

    Args:
      data: the training data; None if they are not opened yet.
    """
    cluster = clusters.from_environment()
    if cluster is None:
        return training_run.show_outcome(*training_run.train(config, data))
    check_flags(config, cluster)
    sizes = len(cluster.replicas), len(cluster.servers)
    logging.info("this process is %s; replicas (chief and workers): %d, parameter servers: %d", cluster.name, *sizes)
    if cluster.role == clusters.EVALUATOR:
        return _evaluate_checkpoints(config, cluster)
    if cluster.role == clusters.PS:
        servers.serve(cluster, stall_timeout=config.distributed.stall_timeout)
    if not cluster.is_distributed:
        return _train_alone(config, data, cluster)
    servers.check_port(cluster)  # before the folder of the run is changed
    try:
        if cluster.role == clusters.WORKER:
            return _train_as_worker(config, data, cluster)
        return training_run.show_outcome(*training_run.train(config, data, cluster))
    except (RunError, UsageError) as error:
        # A replica that cannot even begin is missed too. A runner has already told the servers of its own errors.
        failures.report(cluster, error, config.distributed.sync_replicas, _SERVER_PATIENCE)
        raise


def check_flags(config: TrainConfig, cluster: ClusterConfig) -> None:
    """Raises `UsageError` if a flag is missing, or does not fit the cluster or the role of this process in it."""
    if config.train_only and cluster.is_distributed:
        raise UsageError(f"--train_only={config.train_only} is for training on one machine; leave it out.")
    if not config.train_dir:
        raise UsageError("--train_dir is missing: the processes of a cluster need one folder that all can see.")
    if cluster.is_distributed or cluster.lists_evaluator:
        _refuse_validation(config)
    if cluster.role != clusters.EVALUATOR:
        if cluster.is_distributed:
            check_for_cluster(config, cluster)
    elif not config.validation.eval_data_pattern:
        raise UsageError(
            "--eval_data_pattern is missing: the evaluator needs the files on which to evaluate each checkpoint."
        )


def _refuse_validation(config: TrainConfig) -> None:
    """Raises `UsageError` for flags that say how a training process validates: here only the evaluator validates."""
    for name in [name for name in options.changed(config.validation) if name != "eval_data_pattern"]:
        raise UsageError(
            f"--{name} is for training on one machine: in a cluster the evaluator evaluates each checkpoint on "
            "--eval_data_pattern; leave it out."
        )


def _train_as_worker(config: TrainConfig, data: OpenedData | None, cluster: ClusterConfig) -> int:
    """Trains as a worker, which writes nothing into the run's folder; returns the exit status."""
    config, data = training_run.complete(config, data)
    workload = training_workload.create_training(config, data)
    settings = training_run.runner_config(config, cluster)
    callbacks = runner.CallbackConfig(config.callbacks)
    outcome = runner.build(settings, workload.inputter, workload.modeler, callbacks).run()
    logging.info("%s ended at step %d: %s", cluster.name, outcome.global_step, outcome.ending)
    return outcome.exit_code


def _train_alone(config: TrainConfig, data: OpenedData | None, cluster: ClusterConfig) -> int:
    """Trains as a chief without workers; returns the exit status.

    During the training this process accepts connections at its address, so that an evaluator can see that it is alive.
    If the training succeeds, the process writes its last step into the run marker (cluster.json), so that the evaluator
    can see that it has ended.
    """
    if exchange.read_run_marker(config.train_dir) is not None:
        exchange.begin_run_marker(config.train_dir)  # removes the step at which an earlier start ended
    with answering_at(cluster.address):
        status = training_run.show_outcome(*training_run.train(config, data, validates=not cluster.lists_evaluator))
    steps = checkpoints.steps_in(config.train_dir)
    if not status and steps:
        exchange.end_run_marker(config.train_dir, exchange.begin_run_marker(config.train_dir), steps[0])
    return status


def _evaluate_checkpoints(config: TrainConfig, cluster: ClusterConfig) -> int:
    """Evaluates each new checkpoint until training has ended; returns the exit status of `evaluation.evaluate`."""
    patience = config.distributed.stall_timeout
    following = _follow_checkpoints(config.train_dir, patience, cluster.replicas[0])
    first = next(following)  # waits for the first checkpoint, because `evaluate` reads the folder of the run
    from yt8m.scoring import evaluation  # slow to import, and needed by this role alone

    return evaluation.evaluate(evaluation.config_for_training(config), itertools.chain([first], following))


def _follow_checkpoints(train_dir: str, patience: float, chief: str) -> Iterator[str]:
    """Waits for new checkpoints and yields the path of each, until the run marker says that training has ended.

    Args:
      patience: seconds to wait without a new checkpoint and without an answer from the chief.
    """
    last, since = -1, time.monotonic()
    while True:
        # The chief writes the end into the marker after the last checkpoint. So if the marker, which is read first, has
        # the end, the list of checkpoints includes the last one.
        marker = exchange.read_run_marker(train_dir)
        newest = _find_newer(train_dir, last)
        if newest:
            last = checkpoints.step_of(newest)
            yield newest
            since = time.monotonic()
            continue
        if last >= 0 and marker is not None and marker.ended is not None:
            logging.info("training has ended at step %d", marker.ended)
            return
        if marker is not None and marker.failed:
            raise RunError(f"{train_dir}: {marker.failed}")
        if answers(chief):
            since = time.monotonic()
        elif time.monotonic() - since > patience:
            missing = f"no checkpoint after step {last}" if last >= 0 else "no checkpoint"
            raise RunError(
                f"{missing} in {train_dir}, and the chief ({chief}) has not answered for {patience:g} s "
                "(--stall_timeout): training has failed, or was never started. Start all processes again."
            )
        time.sleep(POLL_SECONDS)


def _find_newer(train_dir: str, last: int) -> str:
    """The path of the newest checkpoint; empty if none above step `last` can be read, or the run has no config yet."""
    # The steps in the names of the files are compared first, because `pointed_to` reads the whole checkpoint.
    if max(checkpoints.steps_in(train_dir), default=-1) <= last or run_dir.read(train_dir) is None:
        return ""
    newest = checkpoints.pointed_to(train_dir)
    return newest if newest and checkpoints.step_of(newest) > last else ""
