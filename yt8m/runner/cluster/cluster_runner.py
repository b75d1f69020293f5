"""A replica at work, and how the chief waits for the others at the end.

The runner of a chief or a worker: the same callbacks as on one machine, in a MonitoredSession.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from absl import logging

from yt8m.deploy.cluster import ClusterConfig
from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.runner import checkpoints
from yt8m.runner.cluster import exchange, replica_graph, servers
from yt8m.runner.cluster.creators import ChiefCreator, StoppedWaiting, WorkerCreator
from yt8m.runner.cluster.replica_graph import ReplicaGraph
from yt8m.runner.cluster.watchdog import Watchdog, unreachable
from yt8m.runner.creation import CreatedGraph
from yt8m.runner.run_config import CallbackConfig, Context, Outcome, Status
from yt8m.runner.runner import Runner, explain, outcome_of
from yt8m.runner.saver import SavedByTheChief
from yt8m.runner.session import close_all, is_end_of_data
from yt8m.runner.signals import StopSignals

POLL_SECONDS = 0.5


@dataclass(frozen=True)
class ReplicaRun:
    """What one replica's run consists of; `hooks` are filled in when they are made."""

    replica: ReplicaGraph
    context: Context
    signals: StopSignals
    watchdog: Watchdog
    files: Sequence[str] = ()
    hooks: list[Any] = field(default_factory=list)

    def sync_hooks(self) -> list[Any]:
        """Those that common steps need; none where each replica steps by itself."""
        from yt8m.runner.cluster.cluster_hooks import CommonStepsHook, IdleHook

        synchrony = self.replica.synchrony
        if synchrony is None:
            return []
        return [CommonStepsHook(synchrony, self.cluster.is_chief), IdleHook(synchrony)]

    @property
    def idle(self) -> Any:
        """The hook of common steps without data; None where each replica steps by itself."""
        return next((hook for hook in self.hooks if hasattr(hook, "is_idle")), None)

    def start_over(self, session: Any) -> None:
        """Begins the data of this replica again."""
        inputs = self.replica.ops.input
        feed = {inputs.files: list(self.files)}
        session.run_step_fn(lambda step_context: step_context.session.run(inputs.initializer, feed))

    @property
    def cluster(self) -> ClusterConfig:
        """The processes of the run."""
        cluster = self.context.config.cluster
        assert cluster is not None
        return cluster

    def announce_end(self, session: Any) -> None:
        """Tells the others that this replica takes no more steps."""
        # TensorFlow insists on the argument's name.
        session.run_step_fn(
            lambda step_context: self.replica.board.set_ended(step_context.session, self.cluster.replica)
        )

    def wait_for_others(self, session: Any, patience: float) -> None:
        """The chief ends last, so that the last checkpoint holds what all have learned.

        Args:
          session: the MonitoredSession.
          patience: seconds that the step may stand still; whoever has not ended by then is given up.
        """
        last, since = -1, time.monotonic()
        while not self.signals.requested:
            missing, step = session.run_step_fn(lambda step_context: self._look(step_context.session))
            if not missing:
                return
            if step > last:
                last, since = step, time.monotonic()
            elif time.monotonic() - since > patience:
                names = ", ".join(map(self.cluster.replica_name, sorted(missing)))
                logging.warning("GIVING UP %s: no step for %g s. Its part of the data may be unread", names, patience)
                return
            self.watchdog.beat()
            time.sleep(POLL_SECONDS)

    def _look(self, session: tf.Session) -> tuple[set[int], int]:
        """Who is still at work, and the step; saves when that is due."""
        missing = set(range(len(self.cluster.replicas))) - self.replica.board.ended(session)
        context = self.context
        context.step = context.global_step = int(session.run(self.replica.ops.global_step))
        for hook in self.hooks:
            save = getattr(hook, "save_when_due", None)
            if save is not None:
                save(session)
        return missing, context.step


LAST_STEP_SECONDS = 20.0  # how long the others may take for the step that they are in at the end

# The thread that sums gradients for all cannot be woken; it ends with the session.
_STOP_SECONDS = 2

# What only one process of a run may write.
_CHIEFS_OWN = ("train_summary", "train_export")


class ClusterRunner(Runner):
    """Trains as one replica of a cluster.

    MonitoredSession goes back to the newest checkpoint by itself where a parameter server was lost. The
    chief saves, writes summaries and exports; it ends last. A worker logs and stops with it.
    """

    def _run(self, signals: StopSignals) -> Outcome:
        cluster = self._cluster
        with Watchdog(self.config.stall_timeout, lambda: unreachable(_peers(cluster))) as watchdog:
            self.inputter = self.inputter.share(cluster.replica, len(cluster.replicas))
            files = list(self.inputter.files())
            replica = replica_graph.build(self.config, self.inputter, self.modeler)
            runtime = servers.start(cluster, dict(replica.deployment.session_config().device_count))
            context = self._shared(replica, files)
            at_work = ReplicaRun(replica, context, signals, watchdog, files)
            with self._hooked(at_work, files):
                creator = self._creator(runtime.target, at_work)
                outcome = self._drive_monitored(creator, at_work)
                if outcome.status is not Status.STOPPED:  # one that was told to stop comes again
                    creator.say_done()
                return outcome

    @property
    def _cluster(self) -> ClusterConfig:
        assert self.config.cluster is not None
        return self.config.cluster

    @contextlib.contextmanager
    def _hooked(self, at_work: ReplicaRun, files: Sequence[str]) -> Iterator[None]:
        """Makes all hooks, and closes them however the run ends."""
        from yt8m.runner.cluster.cluster_hooks import BeatHook, BeginHook

        cluster, context, signals = self._cluster, at_work.context, at_work.signals
        hooks = at_work.hooks
        try:
            hooks.append(BeginHook(cluster.replica, at_work.replica.board, signals))
            hooks += at_work.sync_hooks()
            hooks += self._hooks(context, files, None)
            hooks.append(BeatHook(at_work.watchdog))
            yield
        finally:
            self._step = context.global_step
            close_all(hooks)

    def _shared(self, replica: replica_graph.ReplicaGraph, files: Sequence[str]) -> Context:
        """What the callbacks share; those of a worker write nothing."""
        if self._cluster.is_chief:
            newest = checkpoints.newest_readable(self.config.model_dir)
            return self._context(CreatedGraph(replica.ops, replica.saver, newest, None), files)[0]
        self.callbacks = _without_the_chiefs(self.callbacks)
        context, _ = self._context(CreatedGraph(replica.ops, None, None, None), files)
        context.saver = SavedByTheChief(self.config.model_dir)
        return context

    def _creator(self, target: str, at_work: ReplicaRun) -> Any:
        replica, context, signals = at_work.replica, at_work.context, at_work.signals
        if not self._cluster.is_chief:
            return WorkerCreator(target, replica, context, lambda: signals.requested)
        self._note = exchange.begin_run_marker(self.config.model_dir)
        return ChiefCreator(target, replica, context, self._note.run, self.modeler)

    def _drive_monitored(self, creator: Any, at_work: ReplicaRun) -> Outcome:
        signals, context = at_work.signals, at_work.context
        try:
            with tf.train.MonitoredSession(creator, list(at_work.hooks), _STOP_SECONDS) as session:
                is_end = _run_steps(session, at_work.replica.ops.train_op, signals)
                if is_end and at_work.idle is not None:
                    self._stay(session, at_work)
                if not signals.requested:
                    at_work.announce_end(session)
                    if self._cluster.is_chief:
                        at_work.wait_for_others(session, self._patience(context))
                signals.renew_grace()
        except StoppedWaiting as late:
            if not signals.requested:
                return Outcome(Status.FINISHED, context.global_step, str(late))
            return Outcome(Status.STOPPED, context.global_step, "stopped by a signal", signals.signal)
        context.has_read_all = is_end
        outcome = outcome_of(context, signals)
        if self._cluster.is_chief and outcome.status is not Status.STOPPED:
            exchange.end_run_marker(self.config.model_dir, self._note, context.global_step)
        return outcome

    def _stay(self, session: Any, at_work: ReplicaRun) -> None:
        """Takes part in common steps, without counting, until all replicas have read their data."""
        idle = at_work.idle
        logging.info("all data of this replica were read; it goes on without counting until all are through")
        idle.is_idle, before = True, -1
        while before < idle.steps and not session.should_stop() and not at_work.signals.requested:
            before = idle.steps
            at_work.start_over(session)
            if not _run_steps(session, at_work.replica.ops.train_op, at_work.signals):
                return

    def _patience(self, context: Context) -> float:
        """How long the others may stand still: at the last step of all they have only that one to end."""
        limit = self.config.max_steps
        is_last = limit is not None and context.step >= limit
        return LAST_STEP_SECONDS if is_last else self.config.stall_timeout


def _run_steps(session: Any, fetch: Any, signals: StopSignals) -> bool:
    """Runs steps until a hook or a signal asks for the end; True where the data came to theirs.

    Raises:
      RunError: another OutOfRangeError than the data's, which MonitoredSession would take for a good end.
    """
    try:
        while not session.should_stop() and not signals.requested:
            session.run(fetch)
    except tf.errors.OutOfRangeError as error:
        if not is_end_of_data(error):
            raise RunError(explain(error)) from error
        return True
    return False


def _peers(cluster: ClusterConfig) -> dict[str, str]:
    """Addresses of all other processes, by name."""
    others = [replica for replica in range(len(cluster.replicas)) if replica != cluster.replica]
    names = {cluster.replica_name(replica).partition(" (")[0]: cluster.replicas[replica] for replica in others}
    servers = {f"parameter server {index}": address for index, address in enumerate(cluster.servers)}
    return {**servers, **names}


def _without_the_chiefs(given: CallbackConfig) -> CallbackConfig:
    """The callbacks of a worker."""
    from yt8m.runner.callbacks import names_for

    names = tuple(name for name in names_for("train", given.names) if name not in _CHIEFS_OWN)
    options = {name: values for name, values in given.options.items() if name not in _CHIEFS_OWN}
    return CallbackConfig(names, options)
