"""The graph of a replica that trains with parameter servers, and the creators of its sessions.

Every replica builds the same variables, on the same parameter servers. The chief gives the variables their values, and
the workers wait until it has done that. MonitoredSession asks a creator for a session at the start, and again each time
that a parameter server was lost. So a creator must work at any moment of the training.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass

from absl import logging

from yt8m import forks, graph
from yt8m.errors import UsageError
from yt8m.graph import Inputter, Modeler, TrainOps
from yt8m.lazy import tf
from yt8m.runner import checkpoints, creation
from yt8m.runner.cluster import exchange, failures
from yt8m.runner.cluster.exchange import REMIND_SECONDS, SharedState, server_device
from yt8m.runner.cluster.peers import responds
from yt8m.runner.cluster.shared_flags import message_of_difference
from yt8m.runner.creation import CreatedGraph, deployment_for, replicate
from yt8m.runner.run_config import Context, RunnerConfig

POLL_SECONDS = 1.0  # the interval at which a worker looks whether the chief has given the variables their values


@dataclass(frozen=True)
class ReplicaGraph:
    """The graph of one replica, and the objects that its sessions need.

    Attributes:
      synchrony: the ops of synchronous steps; None if the replicas train asynchronously.
    """

    ops: TrainOps
    state: SharedState
    saver: tf.train.Saver
    restorer: graph.Restorer
    missing: tf.Tensor
    init: tf.Operation
    local_init: tf.Operation
    synchrony: graph.Synchrony | None


def build_replica(config: RunnerConfig, inputter: Inputter, modeler: Modeler) -> ReplicaGraph:
    """Builds the graph of this replica in the current, empty graph."""
    deployment, state = deployment_for(config), SharedState(server_device(0))
    with tf.device(server_device(0)):
        tf.train.get_or_create_global_step()
    synchrony = None
    if config.distributed.sync_replicas:
        synchrony = graph.Synchrony(deployment.num_replicas, state.table)
        config = _without_worker_averages(config)
    ops = replicate(config, inputter, modeler, deployment, synchrony)
    assert isinstance(ops, TrainOps)
    _check_variable_devices()
    # The savers read and write files on the machine of this process, not on those of the parameter servers.
    with tf.device(deployment.inputs_device()):
        return ReplicaGraph(
            ops=ops,
            state=state,
            saver=tf.train.Saver(max_to_keep=None),
            restorer=graph.Restorer(),
            missing=tf.report_uninitialized_variables(tf.global_variables()),
            init=tf.global_variables_initializer(),
            local_init=tf.group(tf.local_variables_initializer(), tf.tables_initializer()),
            synchrony=synchrony,
        )


def _without_worker_averages(config: RunnerConfig) -> RunnerConfig:
    """On the chief `config` itself; on a worker a config without moving averages.

    So only the chief updates the averages, once per synchronous step.
    """
    if config.members.is_chief:
        return config
    optimizer = dataclasses.replace(config.optimizer, moving_average_decay=0.0)
    return dataclasses.replace(config, optimizer=optimizer)


def _check_variable_devices() -> None:
    """Raises RuntimeError if a variable is not on a parameter server: other replicas could not read it."""
    for variable in tf.global_variables():
        if not variable.device.startswith(server_device(0).partition("/task")[0]):
            raise RuntimeError(
                f"the variable {variable.op.name} is on {variable.device or 'no device'}; expected a parameter "
                "server, because the other replicas cannot read it elsewhere"
            )


class StoppedWaiting(Exception):  # noqa: N818 - this is no error
    """A worker no longer waits for the chief, because a signal stopped it or because training is over."""


class _SessionCreator:
    """The base class of the session creators."""

    def __init__(self, target: str, replica: ReplicaGraph, context: Context) -> None:
        self._target, self._graph, self._context = target, replica, context

    def _open_session_if(self, is_ready: Callable[[tf.Session], bool]) -> tf.Session | None:
        """Opens a session that connects only to the parameter servers and this process.

        Returns:
          The session, in which the variables and tables of this process have their initial values; None if `is_ready`
          returned False. The session is then closed, as after an error.
        """
        tf.get_default_graph().finalize()
        deployment = deployment_for(self._context.config, quiet=True)
        config = creation.session_config(deployment, self._context.config.devices)
        with contextlib.ExitStack() as stack:
            session = forks.new_session(self._target, config=config)
            stack.callback(session.close)
            if not is_ready(session):
                return None
            session.run(self._graph.local_init)
            stack.pop_all()
        return session

    def _check_job(self, session: tf.Session) -> None:
        """Raises `JobOverError` if the job is over."""
        reason = self._graph.state.why_over(session)
        if reason:
            raise failures.JobOverError(failures.message_of_end(reason))

    def _is_live(self, session: tf.Session, run: str) -> bool:
        """Whether all variables on the servers have values, and these belong to the run named `run`."""
        return not len(session.run(self._graph.missing)) and self._graph.state.is_live(session, run)


class ChiefCreator(_SessionCreator):
    """Opens sessions of the chief, in which the variables have values.

    If the variables on the servers belong to this run and are not older than the newest checkpoint, they keep their
    values. A restarted chief that always restored the checkpoint would discard the steps that the workers have taken
    since.

    Args:
      modeler: restores weights that are in no checkpoint of the run, such as those of a teacher.
    """

    def __init__(self, target: str, replica: ReplicaGraph, context: Context, run: str, modeler: Modeler) -> None:
        super().__init__(target, replica, context)
        self._run, self._modeler = run, modeler

    def create_session(self) -> tf.Session:
        """A session whose variables have the values on the servers, those of the newest checkpoint, or initial ones."""
        return self._open_session_if(self._fill_variables)

    def _fill_variables(self, session: tf.Session) -> bool:
        """Gives the variables on the servers values, unless they have those of this run; returns True."""
        self._check_job(session)
        config = self._context.config
        newest = checkpoints.newest_readable(config.model_dir)
        saved_step = checkpoints.step_of(newest) if newest else -1
        if self._is_live(session, self._run):
            step = int(session.run(self._graph.ops.global_step))
            if step >= saved_step:
                message = "continuing with the variables on the servers at step %d (checkpoint: %d)"
                logging.info(message, step, saved_step)
                self._context.is_resumed = True
                return True
        self._graph.state.clear(session, self._run)
        created = CreatedGraph(self._graph.ops, self._graph.saver, newest, self._graph.restorer if newest else None)
        creation.start_session(session, created, [] if newest else [self._graph.init], config)
        self._modeler.restore(session)
        self._context.is_resumed = newest is not None
        self._graph.state.set_live(session, self._run)
        logging.info("the variables start from %s", newest or "initial values")
        return True


class WorkerCreator(_SessionCreator):
    """Opens sessions of a worker, as soon as the chief has given the variables their values."""

    def __init__(
        self, target: str, replica: ReplicaGraph, context: Context, flags: int | None, is_stopped: Callable[[], bool]
    ) -> None:
        super().__init__(target, replica, context)
        self._flags, self._is_stopped = flags, is_stopped

    def create_session(self) -> tf.Session:
        """A session whose variables have values."""
        while not self._is_stopped():
            session = self._open_session_if(self._is_ready)
            if session is not None:
                return session
            message = "waiting for the chief to give the variables their values"
            logging.log_every_n_seconds(logging.INFO, message, REMIND_SECONDS)
            time.sleep(POLL_SECONDS)
        raise StoppedWaiting

    def _is_ready(self, session: tf.Session) -> bool:
        """Whether the chief has given the variables their values; raises for the reasons of `create_session`."""
        self._check_job(session)
        self._refuse_other_flags()
        marker = exchange.read_run_marker(self._context.config.model_dir)
        self._context.is_resumed = True  # for a worker the variables always have values, as in a resumed run
        if marker is None or not self._is_live(session, marker.run):
            return False
        if marker.ended is not None:  # the chief has ended, so it would not save the steps of this worker
            raise StoppedWaiting(f"training had ended at step {marker.ended} before this worker started")
        return True

    def _check_job(self, session: tf.Session) -> None:
        """Raises `JobOverError` if the job is over, or if the chief failed, which alone can start the training."""
        super()._check_job(session)
        chief = self._context.config.members.replica_name(0)
        failed = self._graph.state.failed(session)
        if chief in failed:
            raise failures.JobOverError(failures.message_of_end(f"{chief} failed: {failed[chief]}"))

    def _refuse_other_flags(self) -> None:
        """Raises `UsageError` if the flags of the chief differ, after it has told all processes.

        The flags in cluster.json may be those of an earlier start. They are the chief's if it answers, because it
        writes them before it starts its server; so they are read again after it has answered.
        """
        if self._has_same_flags():
            return
        cluster = self._context.config.members
        if responds(cluster.replicas[0]) and not self._has_same_flags():
            message = message_of_difference([cluster.replica_name(cluster.replica)])
            failures.end_job(cluster, message)
            raise UsageError(message)

    def _has_same_flags(self) -> bool:
        marker = exchange.read_run_marker(self._context.config.model_dir)
        return marker is None or marker.flags in (None, self._flags) or marker.ended is not None
