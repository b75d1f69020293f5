"""The cluster's own hooks around the steps."""

from __future__ import annotations

from typing import Any

from yt8m.graph import Synchrony
from yt8m.lazy import tf
from yt8m.runner.cluster.exchange import SharedState
from yt8m.runner.cluster.watchdog import Watchdog
from yt8m.runner.signals import StopSignals


class BeginHook(tf.train.SessionRunHook):
    """At each new session: this replica is at work, and its session is the one to close when time is up."""

    def __init__(self, replica: int, board: SharedState, signals: StopSignals) -> None:
        self._replica, self._board, self._signals = replica, board, signals

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Runs before any other hook's."""
        self._signals.guard(session)
        self._board.set_ended(session, self._replica, False)


class BeatHook(tf.train.SessionRunHook):
    """Tells the watchdog of each step; comes after all others, which may take their time."""

    def __init__(self, watchdog: Watchdog) -> None:
        self._watchdog = watchdog

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """A session is worth a beat too."""
        self._watchdog.beat()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """One step."""
        self._watchdog.beat()


class CommonStepsHook(tf.train.SessionRunHook):
    """Starts the common steps in each new session."""

    def __init__(self, synchrony: Synchrony, is_chief: bool) -> None:
        self._synchrony, self._is_chief = synchrony, is_chief

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """All variables have values by now."""
        self._synchrony.start(session, coord, self._is_chief)


class IdleHook(tf.train.SessionRunHook):
    """Lets a replica without data go on in common steps, with weight 0, until all replicas are without.

    Attributes:
      is_idle: whether this replica has read all its data.
      steps: idle steps so far.
    """

    def __init__(self, synchrony: Synchrony) -> None:
        self._synchrony, self.is_idle, self.steps = synchrony, False, 0

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Asks for the examples of the common step, which every replica sees alike."""
        if not self.is_idle:
            return None
        return tf.train.SessionRunArgs(self._synchrony.examples, {self._synchrony.counts: 0.0})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """A step without any example is the last."""
        if self.is_idle:
            self.steps += 1
            if int(run_values.results) == 0:
                run_context.request_stop()
