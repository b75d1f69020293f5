"""The runner of a chief or a worker: the same callbacks as on one machine, in a MonitoredSession."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from absl import logging

from yt8m.deploy.cluster import ClusterConfig
from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.runner import checkpoints
from yt8m.runner.cluster import graph, note, server, shares
from yt8m.runner.cluster.at_work import AtWork
from yt8m.runner.cluster.creators import ChiefCreator, StoppedWaiting, WorkerCreator
from yt8m.runner.config import CallbackConfig, Outcome, Status
from yt8m.runner.context import Context
from yt8m.runner.create import CreatedGraph
from yt8m.runner.failures import explain
from yt8m.runner.runner import Runner
from yt8m.runner.saver import SavedByTheChief
from yt8m.runner.session import close_all, is_end_of_data
from yt8m.runner.signals import StopSignals
from yt8m.runner.watchdog import Watchdog, unreachable

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
            self.inputter = shares.take(self.inputter, cluster.replica, len(cluster.replicas))
            files = list(self.inputter.files())
            replica = graph.build(self.config, self.inputter, self.modeler)
            runtime = server.start(cluster, dict(replica.deployment.session_config().device_count))
            context = self._shared(replica, files)
            at_work = AtWork(replica, context, signals, watchdog, files)
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
    def _hooked(self, at_work: AtWork, files: Sequence[str]) -> Iterator[None]:
        """Makes all hooks, and closes them however the run ends."""
        from yt8m.runner.cluster.hooks import BeatHook, BeginHook

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

    def _shared(self, replica: graph.ReplicaGraph, files: Sequence[str]) -> Context:
        """What the callbacks share; those of a worker write nothing."""
        if self._cluster.is_chief:
            newest = checkpoints.newest_readable(self.config.model_dir)
            return self._context(CreatedGraph(replica.ops, replica.saver, newest, None), files)[0]
        self.callbacks = _without_the_chiefs(self.callbacks)
        context, _ = self._context(CreatedGraph(replica.ops, None, None, None), files)
        context.saver = SavedByTheChief(self.config.model_dir)
        return context

    def _creator(self, target: str, at_work: AtWork) -> Any:
        replica, context, signals = at_work.replica, at_work.context, at_work.signals
        if not self._cluster.is_chief:
            return WorkerCreator(target, replica, context, lambda: signals.requested)
        self._note = note.begin(self.config.model_dir)
        return ChiefCreator(target, replica, context, self._note.run, self.modeler)

    def _drive_monitored(self, creator: Any, at_work: AtWork) -> Outcome:
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
                signals.noticed()
        except StoppedWaiting as late:
            if not signals.requested:
                return Outcome(Status.FINISHED, context.global_step, str(late))
            return Outcome(Status.STOPPED, context.global_step, "stopped by a signal", signals.signal)
        return self._outcome(context, signals, is_end)

    def _stay(self, session: Any, at_work: AtWork) -> None:
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

    def _outcome(self, context: Context, signals: StopSignals, is_end: bool) -> Outcome:
        status, message = Status.FINISHED, "finished"
        if signals.requested:
            status, message = Status.STOPPED, "stopped by a signal"
        elif is_end:
            status, message = Status.OUT_OF_DATA, "all data were read"
        if self._cluster.is_chief and status is not Status.STOPPED:
            note.end(self.config.model_dir, self._note, context.global_step)
        return Outcome(status, context.global_step, message, signals.signal, context.results)


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
    names = {
        cluster.replica_name(replica).partition(" (")[0]: cluster.replicas[replica] for replica in others
    }
    servers = {f"parameter server {index}": address for index, address in enumerate(cluster.servers)}
    return {**servers, **names}


def _without_the_chiefs(given: CallbackConfig) -> CallbackConfig:
    """The callbacks of a worker."""
    from yt8m.runner.callbacks import names_for

    names = tuple(name for name in names_for("train", given.names) if name not in _CHIEFS_OWN)
    options = {name: values for name, values in given.options.items() if name not in _CHIEFS_OWN}
    return CallbackConfig(names, options)
