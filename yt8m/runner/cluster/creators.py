"""Sessions of a cluster: the chief's gives the variables their values, a worker's waits for that.

MonitoredSession asks for a session at the start and again whenever a parameter server was lost, so a
creator has to be safe to run again at any moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from absl import logging

from yt8m.graph import Modeler
from yt8m.lazy import tf
from yt8m.runner import checkpoints, creation
from yt8m.runner.cluster import exchange
from yt8m.runner.cluster.replica_graph import ReplicaGraph
from yt8m.runner.creation import CreatedGraph
from yt8m.runner.run_config import Context

POLL_SECONDS = 1.0


class _Creator:
    """What both have in common.

    Args:
      target: of this process' server.
      replica: the graph, and what belongs to it.
      context: told whether the variables have been trained before.
    """

    def __init__(self, target: str, replica: ReplicaGraph, context: Context) -> None:
        self._target, self._graph, self._context = target, replica, context

    def say_done(self) -> None:
        """Lets the parameter servers go. After the last session has closed, which needs them to do so."""
        with self._open() as session:
            for op in self._graph.done:
                session.run(op)

    def _open(self) -> tf.Session:
        """A session with the parameter servers and this process alone."""
        tf.get_default_graph().finalize()
        config = self._graph.deployment.session_config()
        config.log_device_placement = self._context.config.log_device_placement
        if self._context.config.xla:
            config.graph_options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
        return tf.Session(self._target, config=config)

    def _is_live(self, session: tf.Session, run: str) -> bool:
        """Whether all variables have values, of this run."""
        return not len(session.run(self._graph.missing)) and self._graph.board.is_live(session, run)


class ChiefCreator(_Creator):
    """Goes on from the live variables where these are of this run and newer than its checkpoint.

    A chief that comes back would throw away what the workers did meanwhile if it restored.

    Args:
      run: the run's name.
      modeler: restores what it brings itself.
    """

    def __init__(self, target: str, replica: ReplicaGraph, context: Context, run: str, modeler: Modeler) -> None:
        super().__init__(target, replica, context)
        self._run, self._modeler = run, modeler

    def create_session(self) -> tf.Session:
        """A session whose variables have values."""
        session = self._open()
        try:
            self._fill(session)
            session.run(self._graph.local_init)
        except BaseException:
            session.close()
            raise
        return session

    def _fill(self, session: tf.Session) -> None:
        config = self._context.config
        newest = checkpoints.newest_readable(config.model_dir)
        saved = checkpoints.step_of(newest) if newest else -1
        if self._is_live(session, self._run):
            step = int(session.run(self._graph.ops.global_step))
            if step >= saved:
                logging.info("going on from the live variables at step %d (checkpoint: %d)", step, saved)
                self._context.is_resumed = True
                return
        self._graph.board.clear(session, self._run)
        created = CreatedGraph(self._graph.ops, self._graph.saver, newest, self._graph.restorer if newest else None)
        creation.start_session(session, created, [] if newest else [self._graph.init], config)
        self._modeler.restore(session)
        self._context.is_resumed = newest is not None
        self._graph.board.set_live(session, self._run)
        logging.info("the variables are %s", f"those of {newest}" if newest else "fresh")


class WorkerCreator(_Creator):
    """Waits until the chief has given the variables of its run their values; looks every second.

    Args:
      is_stopped: whether to give up.
    """

    def __init__(self, target: str, replica: ReplicaGraph, context: Context, is_stopped: Callable[[], bool]) -> None:
        super().__init__(target, replica, context)
        self._is_stopped = is_stopped

    def create_session(self) -> tf.Session:
        """A session whose variables have values.

        Raises:
          StoppedWaiting: the process was told to stop, or came when training had ended.
        """
        told = False
        while not self._is_stopped():
            session = self._open()
            try:
                if self._is_ready(session):
                    session.run(self._graph.local_init)
                    return session
            except BaseException:
                session.close()
                raise
            session.close()
            if not told:
                logging.info("waiting for the chief to give the variables their values")
            told = True
            time.sleep(POLL_SECONDS)
        raise StoppedWaiting

    def _is_ready(self, session: tf.Session) -> bool:
        found = exchange.read_run_marker(self._context.config.model_dir)
        self._context.is_resumed = True  # a worker gives nothing its first value
        if found is None or not self._is_live(session, found.run):
            return False
        if found.ended is not None:  # without a chief, nothing that it does would be saved
            raise StoppedWaiting(f"training had ended at step {found.ended} before this worker came")
        return True


class StoppedWaiting(Exception):  # noqa: N818 - nothing went wrong
    """The process was told to stop while it waited for others, or has nothing to do any more."""
