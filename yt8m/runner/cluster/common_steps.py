"""The hooks by which replicas that train by all-reduce stop and save together, and compare their variables.

A replica cannot leave the training loop alone, because the others would wait for it. So a replica that wants to stop or
to save announces this before a step. In the step every replica reads the announcements of all replicas, and after the
step all replicas do the same.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from absl import logging

from yt8m.deploy.collective import AllReduce, Announcement, Round
from yt8m.errors import RunError, UsageError
from yt8m.lazy import tf
from yt8m.runner.cluster.peers import Stragglers
from yt8m.runner.cluster.shared_flags import fingerprint, message_of_difference
from yt8m.runner.run_config import Context, RunnerConfig
from yt8m.runner.signals import StopSignals

_BY_SIGNAL, _BY_CALLBACK = 1, 2  # values of `Announcement.STOP`: why a replica wants to stop


class Rounds:
    """The calls of `session.run`, besides the training steps, in which all replicas must take part.

    Create this after the training step was built, so that all replicas build their collectives in the same order.
    """

    def __init__(self, collectives: AllReduce) -> None:
        self._variables = variables = tf.global_variables()
        self._values = tf.placeholder(tf.int64, [2], name="greeting_values")
        self._greeting = collectives.gather(self._values)
        self._broadcast = collectives.broadcast(variables)
        self._digests = collectives.digests(variables)
        self._barrier = collectives.gather(tf.ones([], tf.int64))

    def greet(self, session: tf.Session, config: RunnerConfig, is_resumed: bool) -> bool:
        """Compares the options of all replicas, and the names and shapes of their variables."""
        greeting = [fingerprint(config, self._variables), int(is_resumed)]
        greetings = session.run(self._greeting, {self._values: greeting}, Round.GREETING.options())
        indices = np.flatnonzero(greetings[:, 0] != greetings[0, 0])
        if len(indices):
            raise UsageError(message_of_difference([config.members.replica_name(int(index)) for index in indices]))
        return bool(greetings[0, 1])

    def broadcast(self, session: tf.Session) -> None:
        """Sets every variable of every replica to its value on the chief."""
        session.run(self._broadcast, options=Round.BROADCAST.options())

    def wait(self, session: tf.Session) -> None:
        """Waits until all replicas have called this."""
        session.run(self._barrier, options=Round.BARRIER.options())

    def part(self, session: tf.Session) -> None:
        """Waits at the end of the training until all replicas have called this, or until one of them has ended."""
        try:
            self.wait(session)
        except tf.errors.OpError as error:
            logging.debug("another replica has already ended: %s", error)

    def check(self, session: tf.Session, config: RunnerConfig, step: int) -> None:
        """Compares the values of all variables between all replicas."""
        digests = session.run(self._digests, options=Round.CHECK.options())
        differences = np.argwhere(digests != digests[0])
        if len(differences):
            replica, variable = int(differences[0][0]), self._variables[int(differences[0][1])].op.name
            count = len(set(differences[:, 1].tolist()))
            raise RunError(
                f"step {step}: the variable {variable} of {config.members.replica_name(replica)} differs from the "
                f"chief's ({count} of {len(self._variables)} variables differ between replicas). "
                "This step is not saved. Memory or the network may be faulty. Start all processes again: training "
                "resumes from the newest checkpoint."
            )


@dataclass
class Team:
    """The state that the hooks of one replica share: parts of the run, and what all replicas have agreed on.

    Attributes:
      waiting: int64 scalar tensor, the microseconds that this replica spends in the collectives of a step.
      position: the `Position` in the data; None if positions are not saved.
    """

    collectives: AllReduce
    rounds: Rounds
    context: Context
    signals: StopSignals
    waiting: tf.Tensor
    position: Any = None
    requested: bool = False
    by_signal: bool = False
    has_read_all: bool = False
    wants_to_stop: bool = False
    waited: int = 0


class CommonContext(tf.train.SessionRunContext):
    """The run context of the callbacks of a replica, in which `request_stop` ends all replicas after the next step."""

    def __init__(self, session: tf.Session, team: Team) -> None:
        super().__init__(tf.train.SessionRunArgs(None), session)
        self._team = team

    def request_stop(self) -> None:
        """Makes this replica announce in the next step that all replicas must end after that step."""
        self._team.wants_to_stop = True


class AgreeHook(tf.train.SessionRunHook):
    """Reads the announcements of all replicas after each step, before any callback uses the results of the step.

    This hook comes after the hooks that start the input and count the step.
    """

    def __init__(self, team: Team) -> None:
        self._team = team
        cluster = team.context.config.members
        self._is_chief = cluster.is_chief
        self._stragglers = Stragglers(list(cluster.named_replicas), time.monotonic())

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Saves this replica's position in the data for the checkpoint with which a new run begins."""
        if not self._team.context.is_resumed:
            self._save_positions(session)

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        """Requests the announcements of all replicas, and resets what callbacks have planned."""
        context, team = self._team.context, self._team
        context.save_planned = context.stop_planned = False
        fetches = (team.collectives.announced, team.waiting)
        return tf.train.SessionRunArgs(fetches, options=Round.STEP.options())

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Compares the variables, and decides from the announcements whether all replicas stop or save after this step.

        If they save, the workers save their positions in the data here. The chief logs a warning about a slow replica.
        """
        self._compare_variables(run_context.session)
        announcements, waited = run_values.results
        team = self._team
        team.waited = int(waited)
        stops, examples = announcements[:, Announcement.STOP], announcements[:, Announcement.EXAMPLES]
        team.by_signal = bool((stops == _BY_SIGNAL).any())
        team.has_read_all = not examples.any()
        team.requested = bool(stops.any()) or team.has_read_all
        team.context.save_planned = bool(announcements[0, Announcement.SAVE]) or team.requested
        if team.context.save_planned:
            self._save_positions(run_context.session)
        warning = self._stragglers.add(announcements[:, Announcement.WAITED] / 1e6, time.monotonic())
        if warning and self._is_chief:
            logging.warning("%s", warning)

    def _compare_variables(self, session: tf.Session) -> None:
        """Compares the variables of all replicas every `check_replicas_steps` steps, before a callback saves them."""
        context = self._team.context
        interval = context.config.distributed.check_replicas_steps
        if interval and context.step % interval == 0:
            self._team.rounds.check(session, context.config, context.step)

    def _save_positions(self, session: tf.Session) -> None:
        """On a worker, saves its position in the data. On all replicas, waits until all workers have saved theirs.

        After that the chief saves its own position, with the checkpoint.
        """
        team = self._team
        if team.position is None:
            return
        if not self._is_chief:
            team.position.save_part(session, team.context.config.model_dir, team.context.step)
        team.rounds.wait(session)


class AnnounceHook(tf.train.SessionRunHook):
    """Announces in each step whether this replica wants to stop or to save.

    This hook comes after all callbacks, which write into the context what they plan.
    """

    def __init__(self, team: Team) -> None:
        self._team = team

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        """Feeds the announcement of this replica into the step."""
        team, announcement = self._team, np.zeros(len(Announcement), np.int64)
        context = team.context
        if team.signals.requested:
            announcement[Announcement.STOP] = _BY_SIGNAL
        elif team.wants_to_stop or context.stop_planned:
            announcement[Announcement.STOP] = _BY_CALLBACK
        announcement[Announcement.SAVE] = context.save_planned
        announcement[Announcement.WAITED] = team.waited
        return tf.train.SessionRunArgs(None, {team.collectives.announcement: announcement})
