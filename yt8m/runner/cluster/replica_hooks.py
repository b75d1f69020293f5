"""The hooks that only a replica of a cluster has: one prepares each new session, one tells the watch of each step."""

from __future__ import annotations

import time
from typing import Any

from absl import logging

from yt8m.deploy import ClusterConfig
from yt8m.graph import Synchrony
from yt8m.lazy import tf
from yt8m.runner.cluster.exchange import SharedState
from yt8m.runner.cluster.peers import Watch
from yt8m.runner.cluster.shared_flags import message_of_difference
from yt8m.runner.signals import StopSignals

_REFUSED_SECONDS = 5.0  # the interval at which a chief looks for workers that were refused


class ReplicaHook(tf.train.SessionRunHook):
    """The first hook of a replica that trains with parameter servers: prepares each new session.

    In synchronous training, a replica that has read all its data is called idle. It takes part in the steps with weight
    0 until all replicas have read their data.

    Args:
      cluster: the processes, and the role of this one.
      state: the table in which a replica records that it has read all its data.
      signals: the `StopSignals`, which close the session if a step takes too long after a signal.
      synchrony: the ops of synchronous steps; None if the replicas train asynchronously.

    Attributes:
      is_idle: whether this replica has read all its data; the runner sets it.
      steps: number of synchronous steps that this replica took while idle.
      session: the present TensorFlow session; None before the first.
    """

    session: tf.Session | None = None

    def __init__(
        self, cluster: ClusterConfig, state: SharedState, signals: StopSignals, synchrony: Synchrony | None
    ) -> None:
        self._cluster, self._state, self._signals, self._synchrony = cluster, state, signals, synchrony
        self.is_idle, self.steps = False, 0
        self._refused: set[int] = set()
        self._asked = time.monotonic()

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Registers the new session with the `StopSignals`, and records that this replica trains."""
        self.session = session
        self._signals.guard(session)
        self._state.set_ended(session, self._cluster.replica, False)
        self._state.set_refused(session, self._cluster.replica, False)
        if self._synchrony is not None:
            self._synchrony.start(session, coord, self._cluster.is_chief)

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """If this replica is idle, takes part with weight 0 and requests the number of examples of all replicas."""
        if not self.is_idle or self._synchrony is None:
            return None
        return tf.train.SessionRunArgs(self._synchrony.examples, {self._synchrony.counts: 0.0})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Requests a stop of an idle replica after a synchronous step in which no replica had an example.

        On the chief it also logs which workers were refused.
        """
        if self.is_idle:
            self.steps += 1
            if int(run_values.results) == 0:
                run_context.request_stop()
        if self._cluster.is_chief and time.monotonic() - self._asked > _REFUSED_SECONDS:
            self._asked = time.monotonic()
            self.find_refused(run_context.session)

    def find_refused(self, session: tf.Session) -> set[int]:
        """The indices of the workers that were refused because of their flags; each is logged once."""
        refused = self._state.refused(session)
        for replica in sorted(refused - self._refused):
            logging.warning(
                "%s Training goes on without that worker until it is started again with the flags of the chief",
                message_of_difference([self._cluster.replica_name(replica)]),
            )
        self._refused = refused
        return refused


class BeatHook(tf.train.SessionRunHook):
    """Tells the `Watch` of a replica about each step.

    It is the last hook of the replica, so that the time that other hooks need also counts as time without progress.

    Args:
      watch: ends this process if it makes no progress.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Reports a new session as progress."""
        self._watch.beat()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Reports a step as progress."""
        self._watch.beat()
