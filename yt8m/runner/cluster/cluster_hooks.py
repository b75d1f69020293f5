"""Hooks around the steps of a replica.

They subclass a class of TensorFlow, so this module must be imported only when a session is about to open.
"""

from __future__ import annotations

from typing import Any

from yt8m.graph import Synchrony
from yt8m.lazy import tf
from yt8m.runner.cluster.exchange import SharedState
from yt8m.runner.cluster.watchdog import Watchdog
from yt8m.runner.signals import StopSignals


class BeginHook(tf.train.SessionRunHook):
    """In each new session, notes that this replica has data, and lets the signal handler close this session."""

    def __init__(self, replica: int, state: SharedState, signals: StopSignals) -> None:
        self._replica, self._state, self._signals = replica, state, signals

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Runs before the other hooks' `after_create_session`."""
        self._signals.guard(session)
        self._state.set_ended(session, self._replica, False)


class BeatHook(tf.train.SessionRunHook):
    """Tells the watchdog about each step. It is the last hook, since the others may take long."""

    def __init__(self, watchdog: Watchdog) -> None:
        self._watchdog = watchdog

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """A new session counts as progress too."""
        self._watchdog.beat()

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """A step counts as progress."""
        self._watchdog.beat()


class CommonStepsHook(tf.train.SessionRunHook):
    """Starts the common steps in each new session."""

    def __init__(self, synchrony: Synchrony, is_chief: bool) -> None:
        self._synchrony, self._is_chief = synchrony, is_chief

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """All variables have values at this point."""
        self._synchrony.start(session, coord, self._is_chief)


class IdleHook(tf.train.SessionRunHook):
    """Lets a replica without data go on in common steps, with weight 0, until no replica has data.

    Attributes:
      is_idle: whether this replica has read all its data.
      steps: common steps that it took without data.
    """

    def __init__(self, synchrony: Synchrony) -> None:
        self._synchrony, self.is_idle, self.steps = synchrony, False, 0

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Fetches the number of examples of the common step, which is the same for every replica."""
        if not self.is_idle:
            return None
        return tf.train.SessionRunArgs(self._synchrony.examples, {self._synchrony.counts: 0.0})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Ends the loop after a step without any example."""
        if self.is_idle:
            self.steps += 1
            if int(run_values.results) == 0:
                run_context.request_stop()
