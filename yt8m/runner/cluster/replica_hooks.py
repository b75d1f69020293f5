"""The hooks that only a replica of a cluster has: one prepares each new session, one tells the watch of each step."""

from __future__ import annotations

import time
from typing import Any

from absl import logging

from yt8m.deploy import ClusterConfig
from yt8m.graph import Synchrony
from yt8m.lazy import tf
from yt8m.runner.cluster.exchange import REMIND_SECONDS, SharedState
from yt8m.runner.cluster.failures import JobOverError, describe_missing, message_of_end
from yt8m.runner.cluster.peers import Watch, find_silent
from yt8m.runner.signals import StopSignals

_LOOK_SECONDS = 5.0  # the interval at which a replica looks whether the job is over


class ReplicaHook(tf.train.SessionRunHook):
    """The first hook of a replica that trains with parameter servers: prepares each new session.

    In synchronous training, a replica that has read all its data is called idle. It takes part in the steps with weight
    0 until all replicas have read their data.

    Args:
      synchrony: the ops of synchronous steps; None if the replicas train asynchronously.

    Attributes:
      session: the present TensorFlow session; None before the first.
    """

    session: tf.Session | None = None

    def __init__(
        self, cluster: ClusterConfig, state: SharedState, signals: StopSignals, synchrony: Synchrony | None
    ) -> None:
        self._cluster, self._state, self._signals, self._synchrony = cluster, state, signals, synchrony
        self.is_idle, self.steps = False, 0
        self._name = cluster.replica_name(cluster.replica)
        self._looked = self._reminded = time.monotonic()

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Registers the new session with the `StopSignals`, and records that this replica trains."""
        self.session = session
        self._signals.guard(session)
        self._state.set_ended(session, self._cluster.replica, False)
        self._state.clear_failed(session, self._name)
        if self._synchrony is not None:
            self._synchrony.start(session, coord, self._cluster.is_chief)

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """If this replica is idle, takes part with weight 0 and requests the number of examples of all replicas."""
        if not self.is_idle or self._synchrony is None:
            return None
        return tf.train.SessionRunArgs(self._synchrony.examples, {self._synchrony.counts: 0.0})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Requests a stop of an idle replica after a synchronous step in which no replica had an example.

        Every few seconds it looks whether the job is over; on the chief it also logs which workers are missing.
        """
        if self.is_idle:
            self.steps += 1
            if int(run_values.results) == 0:
                run_context.request_stop()
        if time.monotonic() - self._looked > _LOOK_SECONDS:
            self._looked = time.monotonic()
            self.check_job(run_context.session)

    def check_job(self, session: tf.Session) -> None:
        """Raises `JobOverError` if the job is over; on the chief, logs once a minute which workers are missing."""
        reason = self._state.why_over(session)
        if reason:
            raise JobOverError(message_of_end(reason))
        if self._cluster.is_chief and time.monotonic() - self._reminded > REMIND_SECONDS:
            self._reminded = time.monotonic()
            missing = self._describe_missing(session)
            if missing:
                logging.warning("%s", missing)

    def failed_workers(self, session: tf.Session) -> set[int]:
        """The indices of the workers that ended with an error and have not started again."""
        failed = self._state.failed(session)
        return {index for index, name in enumerate(self._cluster.named_replicas) if index and name in failed}

    def _describe_missing(self, session: tf.Session) -> str:
        """A sentence that names the workers that failed or accept no connection, without those that read all data."""
        ended, cluster = self._state.ended(session), self._cluster
        needed = {name: address for i, (name, address) in enumerate(cluster.named_replicas.items()) if i not in ended}
        needed.pop(self._name, None)
        failed = {name: reason for name, reason in self._state.failed(session).items() if name in needed}
        return describe_missing(failed, find_silent({name: needed[name] for name in needed.keys() - failed.keys()}))


class BeatHook(tf.train.SessionRunHook):
    """Tells the `Watch` of a replica about each step.

    It is the last hook of the replica, so that the time that other hooks need also counts as time without progress.
    """

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Reports a new session as progress."""
        self._watch.beat()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Reports a step as progress."""
        self._watch.beat()
