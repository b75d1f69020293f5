"""The runner of a chief or a worker: the same callbacks as on one machine, in a MonitoredSession.

Each replica reads its own part of the data; together they read all of it. The chief ends last.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from absl import logging

from yt8m.deploy.cluster import ClusterConfig
from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.runner import checkpoints
from yt8m.runner.cluster import exchange, servers
from yt8m.runner.cluster.peers import responds
from yt8m.runner.cluster.replica import ChiefCreator, ReplicaGraph, StoppedWaiting, WorkerCreator, build_replica
from yt8m.runner.cluster.watchdog import Watchdog, unreachable
from yt8m.runner.creation import CreatedGraph
from yt8m.runner.run_config import CallbackConfig, Context, Outcome, Status
from yt8m.runner.runner import Runner, close_all, explain, is_end_of_data, outcome_of
from yt8m.runner.saver import SavedByTheChief
from yt8m.runner.signals import StopSignals

POLL_SECONDS = 0.5
LAST_STEP_SECONDS = 20.0  # time that the others may take for their current step at the end
_STOP_SECONDS = 2  # a session waits this long for its threads; the gradient-summing one never ends by itself
_CHIEFS_OWN = ("train_summary", "train_export")  # callbacks whose files only one process may write


@dataclass(frozen=True)
class ReplicaRun:
    """The run of one replica.

    Attributes:
      cluster: all processes, and the role of this one.
      graph: the graph of this replica.
      context: the state that the callbacks share.
      signals: the signals that ask this process to stop.
      watchdog: ends the process if it waits too long for others.
      files: the files that this replica reads.
      hooks: all hooks of the session, in their order; empty until they are made.
    """

    cluster: ClusterConfig
    graph: ReplicaGraph
    context: Context
    signals: StopSignals
    watchdog: Watchdog
    files: Sequence[str] = ()
    hooks: list[Any] = field(default_factory=list)

    def step_idly(self, session: Any) -> None:
        """Takes part in common steps, with weight 0, until all replicas have read their data."""
        if self.graph.synchrony is None:  # each replica steps by itself
            return
        replica_hook = self.hooks[0]
        logging.info("this replica has read all its data; it takes part without weight until all others have too")
        replica_hook.is_idle, before = True, -1
        while before < replica_hook.steps and not session.should_stop() and not self.signals.requested:
            before = replica_hook.steps
            self._start_data_again(session)
            if not self.run_steps(session):
                return

    def _start_data_again(self, session: Any) -> None:
        inputs = self.graph.ops.input
        feed = {inputs.files: list(self.files)}
        # TensorFlow requires this name of the argument.
        session.run_step_fn(lambda step_context: step_context.session.run(inputs.initializer, feed))

    def run_steps(self, session: Any) -> bool:
        """Runs steps until a hook or a signal asks to stop; True if all data were read.

        Raises:
          RunError: an OutOfRangeError before the end of the data; MonitoredSession would take it for that end.
        """
        try:
            while not session.should_stop() and not self.signals.requested:
                session.run(self.graph.ops.train_op)
        except tf.errors.OutOfRangeError as error:
            if not is_end_of_data(error):
                raise RunError(explain(error)) from error
            return True
        return False

    def announce_end(self, session: Any) -> None:
        """Tells the other replicas that this one takes no more steps."""
        session.run_step_fn(lambda step_context: self.graph.state.set_ended(step_context.session, self.cluster.replica))

    def wait_for_others(self, session: Any, patience: float) -> None:
        """Makes the chief wait for the others, so that the last checkpoint includes the steps of all replicas.

        Args:
          session: the MonitoredSession.
          patience: the chief stops waiting after this many seconds without a step of the others.
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
        """Returns the replicas that have not ended and the global step; saves a checkpoint if one is due."""
        missing = set(range(len(self.cluster.replicas))) - self.graph.state.ended(session)
        context = self.context
        context.step = context.global_step = int(session.run(self.graph.ops.global_step))
        for hook in self.hooks:
            save = getattr(hook, "save_when_due", None)
            if save is not None:
                save(session)
        return missing, context.step


class ClusterRunner(Runner):
    """Trains as one replica of a cluster.

    If a parameter server is lost, MonitoredSession goes back to the newest checkpoint automatically. The chief saves,
    writes summaries and exports, and ends last. A worker only logs, and stops with the chief.
    """

    def _run(self, signals: StopSignals) -> Outcome:
        from yt8m.runner.hooks import BeatHook, ReplicaHook  # imports TensorFlow

        cluster = self.config.cluster
        assert cluster is not None
        with Watchdog(self.config.stall_timeout, lambda: unreachable(_peers(cluster))) as watchdog:
            self.inputter = self.inputter.share(cluster.replica, len(cluster.replicas))
            files = list(self.inputter.files())
            graph = build_replica(self.config, self.inputter, self.modeler)
            runtime = servers.start(cluster, dict(graph.deployment.session_config().device_count))
            run = ReplicaRun(cluster, graph, self._shared(cluster, graph, files), signals, watchdog, files)
            try:
                run.hooks.extend(
                    [
                        ReplicaHook(cluster, graph.state, signals, graph.synchrony),
                        *self._hooks(run.context, files, None),
                        BeatHook(watchdog),
                    ]
                )
                creator = self._creator(runtime.target, run)
                outcome = self._drive_monitored(creator, run)
                if outcome.status is not Status.STOPPED:  # a process that was told to stop may be restarted
                    creator.say_done()
                return outcome
            finally:
                self._step = run.context.global_step
                close_all(run.hooks)

    def _shared(self, cluster: ClusterConfig, graph: ReplicaGraph, files: Sequence[str]) -> Context:
        """The context that the callbacks share; on a worker its saver writes nothing."""
        if cluster.is_chief:
            newest = checkpoints.newest_readable(self.config.model_dir)
            return self._context(CreatedGraph(graph.ops, graph.saver, newest, None), files)[0]
        self.callbacks = without_the_chiefs(self.callbacks)
        context, _ = self._context(CreatedGraph(graph.ops, None, None, None), files)
        context.saver = SavedByTheChief(self.config.model_dir)
        return context

    def _creator(self, target: str, run: ReplicaRun) -> Any:
        if not run.cluster.is_chief:
            return WorkerCreator(target, run.graph, run.context, lambda: run.signals.requested)
        self._marker = exchange.begin_run_marker(self.config.model_dir)
        return ChiefCreator(target, run.graph, run.context, self._marker.run, self.modeler)

    def _drive_monitored(self, creator: Any, run: ReplicaRun) -> Outcome:
        signals, context = run.signals, run.context
        try:
            with tf.train.MonitoredSession(creator, list(run.hooks), _STOP_SECONDS) as session:
                is_end = run.run_steps(session)
                if is_end:
                    run.step_idly(session)
                if not signals.requested:
                    run.announce_end(session)
                    if run.cluster.is_chief:
                        run.wait_for_others(session, self._patience(context))
                signals.renew_grace()
                # Saving still needs the parameter servers.
                run.watchdog.leave_alone(lambda: all(map(responds, run.cluster.servers)))
        except StoppedWaiting as late:
            if not signals.requested:
                return Outcome(Status.FINISHED, context.global_step, str(late))
            return Outcome(Status.STOPPED, context.global_step, "stopped by a signal", signals.signal)
        context.has_read_all = is_end
        outcome = outcome_of(context, signals)
        if run.cluster.is_chief and outcome.status is not Status.STOPPED:
            exchange.end_run_marker(self.config.model_dir, self._marker, context.global_step)
        return outcome

    def _patience(self, context: Context) -> float:
        """Seconds that the others may take for a step; fewer at max_steps, when each only finishes its current step."""
        limit = self.config.max_steps
        is_last = limit is not None and context.step >= limit
        return LAST_STEP_SECONDS if is_last else self.config.stall_timeout


def _peers(cluster: ClusterConfig) -> dict[str, str]:
    """{name: address} of all other processes."""
    others = [replica for replica in range(len(cluster.replicas)) if replica != cluster.replica]
    names = {cluster.replica_name(replica).partition(" (")[0]: cluster.replicas[replica] for replica in others}
    return {f"parameter server {index}": address for index, address in enumerate(cluster.servers)} | names


def without_the_chiefs(given: CallbackConfig) -> CallbackConfig:
    """The callbacks of a worker: `given` without those whose files only the chief writes."""
    from yt8m.runner.callbacks import DEFAULTS

    names = [name for name in given.names if name.removeprefix("-") not in _CHIEFS_OWN]
    names += [f"-{name}" for name in _CHIEFS_OWN if name in DEFAULTS["train"]]
    options = {name: values for name, values in given.options.items() if name not in _CHIEFS_OWN}
    return CallbackConfig(tuple(names), options)
