"""The graph of one replica, and its sessions: the chief initialises the variables, and workers wait until it has.

Every process builds the same variables, on the same parameter servers. MonitoredSession asks a creator for a session at
the start, and again whenever a parameter server was lost. So a creator must be safe to run at any moment.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass

from absl import logging

from yt8m import graph
from yt8m.graph import Inputter, Modeler, TrainOps
from yt8m.lazy import tf
from yt8m.runner import checkpoints, creation
from yt8m.runner.cluster import exchange
from yt8m.runner.cluster.exchange import REMIND_SECONDS, SharedState, server_device
from yt8m.runner.creation import CreatedGraph, deployment_for, replicate
from yt8m.runner.run_config import Context, RunnerConfig

POLL_SECONDS = 1.0


@dataclass(frozen=True)
class ReplicaGraph:
    """The graph of one replica, and the objects that a session on it needs.

    Attributes:
      ops: the handles of the graph.
      state: the state that the replicas share, which is on the first parameter server.
      saver: writes checkpoints.
      restorer: reads checkpoints.
      missing: tensor of the names of variables without a value.
      init: op that gives the shared variables their first values.
      local_init: op that gives this process' own variables and tables their first values.
      synchrony: the common steps; None if each replica steps by itself.
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
        config = _averages_on_the_chief(config)
    ops = replicate(config, inputter, modeler, deployment, synchrony)
    assert isinstance(ops, TrainOps)
    _check_places()
    # Files are read and written on this machine, not on the one where a variable lives.
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


def _averages_on_the_chief(config: RunnerConfig) -> RunnerConfig:
    """Only the chief updates moving averages, so that they are updated once per common step, not per replica."""
    if config.members.is_chief:
        return config
    optimizer = dataclasses.replace(config.optimizer, moving_average_decay=0.0)
    return dataclasses.replace(config, optimizer=optimizer)


def _check_places() -> None:
    """Refuses a variable that is on no parameter server, where other replicas would not see it."""
    for variable in tf.global_variables():
        if not variable.device.startswith(server_device(0).partition("/task")[0]):
            raise RuntimeError(
                f"the variable {variable.op.name} is on {variable.device or 'no device'}, where the other "
                "replicas do not see it"
            )


class StoppedWaiting(Exception):  # noqa: N818 - nothing went wrong
    """The wait has ended, because the process was told to stop or training is over."""


class _Creator:
    """The common base class of both session creators.

    Args:
      target: address of this process' TensorFlow server.
      replica: the graph of this process.
      context: the run's context; `is_resumed` is set if the variables have been trained before.
    """

    def __init__(self, target: str, replica: ReplicaGraph, context: Context) -> None:
        self._target, self._graph, self._context = target, replica, context

    def _opened_if(self, is_ready: Callable[[tf.Session], bool]) -> tf.Session | None:
        """A session that connects to the parameter servers and this process only; None if `is_ready` denies it."""
        tf.get_default_graph().finalize()
        config = creation.session_config(self._context.config)
        with contextlib.ExitStack() as unless_ready:
            session = tf.Session(self._target, config=config)
            unless_ready.callback(session.close)
            if not is_ready(session):
                return None
            session.run(self._graph.local_init)
            unless_ready.pop_all()
        return session

    def _is_live(self, session: tf.Session, run: str) -> bool:
        """Whether the servers hold all variables, with the values of the run `run` rather than of an earlier one."""
        return not len(session.run(self._graph.missing)) and self._graph.state.is_live(session, run)


class ChiefCreator(_Creator):
    """Continues with the servers' variables if they are of this run and not older than its checkpoint; else restores.

    If a restarted chief always restored, it would discard the steps that the workers took meanwhile.

    Args:
      run: the run's name.
      modeler: restores weights that come from elsewhere (a teacher's).
    """

    def __init__(self, target: str, replica: ReplicaGraph, context: Context, run: str, modeler: Modeler) -> None:
        super().__init__(target, replica, context)
        self._run, self._modeler = run, modeler

    def create_session(self) -> tf.Session:
        """A session whose variables have values: the live ones, those of the newest checkpoint, or initial values."""
        return self._opened_if(self._fill)

    def _fill(self, session: tf.Session) -> bool:
        config = self._context.config
        newest = checkpoints.newest_readable(config.model_dir)
        saved = checkpoints.step_of(newest) if newest else -1
        if self._is_live(session, self._run):
            step = int(session.run(self._graph.ops.global_step))
            if step >= saved:
                logging.info("continuing with the variables on the servers at step %d (checkpoint: %d)", step, saved)
                self._context.is_resumed = True
                return True
        self._graph.state.clear(session, self._run)
        created = CreatedGraph(self._graph.ops, self._graph.saver, newest, self._graph.restorer if newest else None)
        creation.start_session(session, created, [] if newest else [self._graph.init], config)
        self._modeler.restore(session)
        self._context.is_resumed = newest is not None
        self._graph.state.set_live(session, self._run)
        logging.info("the variables are %s", f"those of {newest}" if newest else "fresh")
        return True


class WorkerCreator(_Creator):
    """Waits until the chief has given the variables their values; asks every second.

    Args:
      is_stopped: function that says whether to stop waiting.
    """

    def __init__(self, target: str, replica: ReplicaGraph, context: Context, is_stopped: Callable[[], bool]) -> None:
        super().__init__(target, replica, context)
        self._is_stopped = is_stopped

    def create_session(self) -> tf.Session:
        """A session whose variables have values.

        Raises:
          StoppedWaiting: the process was told to stop, or training had ended before it came.
        """
        while not self._is_stopped():
            session = self._opened_if(self._is_ready)
            if session is not None:
                return session
            message = "waiting for the chief to give the variables their values"
            logging.log_every_n_seconds(logging.INFO, message, REMIND_SECONDS)
            time.sleep(POLL_SECONDS)
        raise StoppedWaiting

    def _is_ready(self, session: tf.Session) -> bool:
        marker = exchange.read_run_marker(self._context.config.model_dir)
        self._context.is_resumed = True  # a worker gives no variable its first value
        if marker is None or not self._is_live(session, marker.run):
            return False
        if marker.ended is not None:  # without a chief, no work of the worker would be saved
            raise StoppedWaiting(f"training had ended at step {marker.ended} before this worker came")
        return True
