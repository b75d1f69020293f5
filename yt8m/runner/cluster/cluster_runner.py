"""The runners of a replica, that is the chief or a worker. They use the callbacks of a training on one machine.

Each replica reads its own part of the data.

With parameter servers, every replica trains in a MonitoredSession, and the chief ends last.

With all-reduce, all replicas take each step together. The chief restores or initialises the variables and sends their
values to the others. From then on the variables of all replicas are equal bit for bit, because each step applies the
same sums to them. Only the chief writes files; with exact_resume each other replica adds its position in the data to
the chief's checkpoints. If a replica dies, all others end; when all are started again, they resume from the newest
checkpoint.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

from absl import logging

from yt8m import deploy
from yt8m.deploy.collective import collective_config
from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.runner import checkpoints, creation
from yt8m.runner.cluster import exchange, servers
from yt8m.runner.cluster.peers import Watch, find_lost, message_of_loss, responds, wait_for_all
from yt8m.runner.cluster.replica import ChiefCreator, StoppedWaiting, WorkerCreator, build_replica
from yt8m.runner.creation import CreatedGraph
from yt8m.runner.run_config import CallbackConfig, Context, Outcome, Status
from yt8m.runner.runner import Runner, close_all, explain, is_end_of_data, outcome_of, run_steps
from yt8m.runner.saver import SavedByTheChief, SavedPosition
from yt8m.runner.signals import StopSignals

POLL_SECONDS = 0.5
LAST_STEP_SECONDS = 20.0  # time for which a chief at max_steps waits for the other replicas' current step
_LINGER_SECONDS = 3.0  # time for which a replica stays alive after a step failed, so that others see that it lives
_STOP_SECONDS = 2  # time for which a session waits for its threads; the thread that sums gradients never ends by itself
_CHIEFS_OWN = ("train_summary", "train_export")  # callbacks that only the chief has, because only it may write files


class ReplicaRunner(Runner):
    """The base class of the two runners: a replica reads its own part of the data, and only the chief writes files."""

    def _take_share(self) -> list[str]:
        """Limits the inputter to this replica's part of the data; returns the files of that part."""
        cluster = self.config.members
        self.inputter = self.inputter.share(cluster.replica, len(cluster.replicas))
        return list(self.inputter.files())

    def _join(self, created: CreatedGraph, files: Sequence[str]) -> tuple[Context, SavedPosition | None]:
        """`_context` of a replica: a worker gets no callback or saver that writes; the chief writes the marker."""
        if self.config.members.is_chief:
            self._marker = exchange.begin_run_marker(self.config.model_dir)
            return self._context(created, files)
        self.callbacks = without_the_chiefs(self.callbacks)
        saver = SavedByTheChief(self.config.model_dir)
        return self._context(dataclasses.replace(created, saver=None, checkpoint=None), files, saver=saver)

    def _ended(self, context: Context, signals: StopSignals) -> Outcome:
        """The outcome of a run without an error. The chief writes the end into the marker, unless by a signal."""
        outcome = outcome_of(context, signals)
        if self.config.members.is_chief and outcome.status is not Status.STOPPED:
            exchange.end_run_marker(self.config.model_dir, self._marker, context.global_step)
        return outcome


class ClusterRunner(ReplicaRunner):
    """Trains as one replica of a cluster with parameter servers.

    If a parameter server is lost, MonitoredSession returns to the newest checkpoint automatically. The chief saves
    checkpoints, writes summaries, exports the model, and ends last. A worker only logs; it ends if the chief ends.
    """

    def _run(self, signals: StopSignals) -> Outcome:
        from yt8m.runner.hooks import BeatHook, ReplicaHook  # imports TensorFlow

        cluster = self.config.members
        servers_by_name = {f"parameter server {i} ({address})": address for i, address in enumerate(cluster.servers)}
        with Watch(servers_by_name | cluster.others, self.config.distributed.stall_timeout) as self._watch:
            self._signals, self._files = signals, self._take_share()
            self._graph = build_replica(self.config, self.inputter, self.modeler)
            runtime = servers.start(cluster, dict(creation.session_config(self.config).device_count))
            newest = checkpoints.newest_readable(self.config.model_dir) if cluster.is_chief else None
            created = CreatedGraph(self._graph.ops, self._graph.saver, newest, None)
            self._shared, _ = self._join(created, self._files)
            self._all_hooks: list[Any] = []
            try:
                self._replica_hook = ReplicaHook(cluster, self._graph.state, signals, self._graph.synchrony)
                self._all_hooks += [self._replica_hook, *self._hooks(self._shared, self._files, None)]
                outcome = self._drive_monitored([*self._all_hooks, BeatHook(self._watch)], runtime.target)
                if outcome.status is not Status.STOPPED:  # a process that a signal stopped may be started again
                    exchange.say_done(cluster, runtime)
                return outcome
            finally:
                self._step = self._shared.global_step
                close_all(self._all_hooks)

    def _creator(self, target: str) -> Any:
        if self.config.members.is_chief:
            return ChiefCreator(target, self._graph, self._shared, self._marker.run, self.modeler)
        return WorkerCreator(target, self._graph, self._shared, lambda: self._signals.requested)

    def _drive_monitored(self, hooks: Sequence[Any], target: str) -> Outcome:
        cluster, signals, context = self.config.members, self._signals, self._shared
        try:
            with tf.train.MonitoredSession(self._creator(target), list(hooks), _STOP_SECONDS) as session:
                is_end = self._run_steps(session)
                if is_end:
                    self._step_idly(session)
                if not signals.requested:
                    session.run_step_fn(
                        lambda step_context: self._graph.state.set_ended(step_context.session, cluster.replica)
                    )
                    if cluster.is_chief:
                        self._wait_for_others(session, self._patience())
                signals.renew_grace()
                # The final save needs the parameter servers, but no other replica.
                self._watch.leave_alone(lambda: all(map(responds, cluster.servers)))
        except StoppedWaiting as late:
            if not signals.requested:
                return Outcome(Status.FINISHED, context.global_step, str(late))
            return Outcome(Status.STOPPED, context.global_step, "stopped by a signal", signals.signal)
        context.has_read_all = is_end
        return self._ended(context, signals)

    def _run_steps(self, session: Any) -> bool:
        """Runs steps until a hook or a signal requests a stop; returns whether all data were read.

        Raises:
          RunError: an OutOfRangeError that is not the end of the data; MonitoredSession would take it for that end.
        """
        try:
            while not session.should_stop() and not self._signals.requested:
                session.run(self._graph.ops.train_op)
        except tf.errors.OutOfRangeError as error:
            if not is_end_of_data(error):
                raise RunError(explain(error)) from error
            return True
        return False

    def _step_idly(self, session: Any) -> None:
        """Takes part in synchronous steps, with weight 0, until all replicas have read their data."""
        if self._graph.synchrony is None:  # the replicas train asynchronously
            return
        logging.info("this replica has read all its data: it takes part with weight 0 until all replicas have")
        replica_hook, inputs = self._replica_hook, self._graph.ops.input
        replica_hook.is_idle, before = True, -1
        while before < replica_hook.steps and not session.should_stop() and not self._signals.requested:
            before = replica_hook.steps
            # Starts the data again. TensorFlow requires that the argument is named step_context.
            session.run_step_fn(
                lambda step_context: step_context.session.run(inputs.initializer, {inputs.files: self._files})
            )
            if not self._run_steps(session):
                return

    def _wait_for_others(self, session: Any, patience: float) -> None:
        """Makes the chief wait for the workers, so that the last checkpoint includes the steps of all replicas.

        Args:
          session: the MonitoredSession.
          patience: the chief stops waiting if the workers take no step for this number of seconds.
        """
        last, since = -1, time.monotonic()
        while not self._signals.requested:
            missing, step = session.run_step_fn(lambda step_context: self._look(step_context.session))
            if not missing:
                return
            if step > last:
                last, since = step, time.monotonic()
            elif time.monotonic() - since > patience:
                names = ", ".join(map(self.config.members.replica_name, sorted(missing)))
                logging.warning(
                    "NO LONGER WAITING FOR %s: no step for %g s. Some of its data may be unread", names, patience
                )
                return
            self._watch.beat()
            time.sleep(POLL_SECONDS)

    def _look(self, session: tf.Session) -> tuple[set[int], int]:
        """(the replicas that have not read all their data, the global step); also saves a checkpoint if one is due."""
        missing = set(range(len(self.config.members.replicas))) - self._graph.state.ended(session)
        context = self._shared
        context.step = context.global_step = int(session.run(self._graph.ops.global_step))
        for hook in self._all_hooks:
            save = getattr(hook, "save_when_due", None)
            if save is not None:
                save(session)
        return missing, context.step

    def _patience(self) -> float:
        """Seconds for which the chief waits for a step of the workers; at max_steps only the current step is left."""
        limit = self.config.max_steps
        is_last = limit is not None and self._shared.step >= limit
        return LAST_STEP_SECONDS if is_last else self.config.distributed.stall_timeout


def without_the_chiefs(callbacks: CallbackConfig) -> CallbackConfig:
    """The callbacks of a worker: `callbacks` without those that write files, which only the chief may have."""
    from yt8m.runner.callbacks import DEFAULTS

    names = [name for name in callbacks.names if name.removeprefix("-") not in _CHIEFS_OWN]
    names += [f"-{name}" for name in _CHIEFS_OWN if name in DEFAULTS["train"]]
    options = {name: values for name, values in callbacks.options.items() if name not in _CHIEFS_OWN}
    return CallbackConfig(tuple(names), options)


class AllReduceRunner(ReplicaRunner):
    """Trains as one of several replicas that each hold all variables and add up their gradients by all-reduce."""

    def _run(self, signals: StopSignals) -> Outcome:
        cluster = self.config.members
        patience = self.config.distributed.stall_timeout
        files = self._take_share()
        team = self._build(files, signals)
        start = creation.initializers(self._created)
        session_config = creation.session_config(self.config)
        tf.get_default_graph().finalize()
        runtime = servers.start(cluster, dict(session_config.device_count), collective_config())
        if not wait_for_all(cluster.others, lambda: signals.requested, patience):
            return Outcome(Status.STOPPED, 0, "stopped by a signal", signals.signal)
        # From here on, this process calls collectives, which have no time limit of their own.
        self._watch = Watch(cluster.others, patience)
        try:
            with self._watch, tf.Session(runtime.target, config=session_config) as session:
                signals.guard(session)
                return self._train(session, team, start, self._all_hooks(team, files))
        except tf.errors.OpError as error:
            raise self._with_the_lost(error, signals) from error

    def _build(self, files: Sequence[str], signals: StopSignals) -> Any:
        """Builds the graph of this replica; returns the `Team`, which its hooks share."""
        from yt8m.runner.cluster.common_steps import Rounds, Team  # imports TensorFlow

        config, cluster = self.config, self.config.members
        collectives = deploy.AllReduce(cluster.replica, len(cluster.replicas), config.distributed.exchange_dtype)
        deployment = creation.deployment_for(config)
        ops = creation.replicate(config, self.inputter, self.modeler, deployment, collectives)
        waiting, rounds = collectives.waited(), Rounds(collectives)
        self._created = CreatedGraph(ops, None, None, None)
        if cluster.is_chief:
            self._created = creation.for_training(ops, checkpoints.newest_readable(config.model_dir))
        context, position = self._join(self._created, files)
        position = position or self._position(self._created, files)
        return Team(collectives, rounds, context, signals, waiting, position)

    def _order(self) -> dict[str, Any]:
        cluster = self.config.members
        return {**super()._order(), "replica": cluster.replica, "replicas": len(cluster.replicas)}

    def _all_hooks(self, team: Any, files: Sequence[str]) -> list[Any]:
        from yt8m.runner.cluster.common_steps import AgreeHook, AnnounceHook
        from yt8m.runner.hooks import BeatHook, StepHook

        hooks = self._hooks(team.context, files, team.position)
        counted = 1 + next(at for at, hook in enumerate(hooks) if isinstance(hook, StepHook))
        return [*hooks[:counted], AgreeHook(team), *hooks[counted:], AnnounceHook(team), BeatHook(self._watch)]

    def _train(self, session: tf.Session, team: Any, start: Sequence[tf.Operation], hooks: list[Any]) -> Outcome:
        from yt8m.runner.cluster.common_steps import CommonContext

        context, config = team.context, self.config
        self._watch.need_all()
        try:
            for hook in hooks:
                hook.begin()
            context.is_resumed = team.rounds.greet(session, config, context.is_resumed)
            creation.start_session(session, self._created, start, config)
            self.modeler.restore(session)
            team.rounds.broadcast(session)
            run_steps(session, context.ops, hooks, team, CommonContext(session, team))
            self._watch.need_none()
            team.rounds.part(session)
            context.has_read_all = team.has_read_all
            team.signals.renew_grace()
            self._watch.leave_alone(lambda: True)
            for hook in hooks:
                hook.end(session)
        finally:
            self._step = context.global_step
            close_all(hooks)
        if team.by_signal:
            why = "a process got a signal to stop"
            return Outcome(Status.STOPPED, context.global_step, why, team.signals.signal)
        return self._ended(context, team.signals)

    def _with_the_lost(self, error: tf.errors.OpError, signals: StopSignals) -> Exception:
        """A `RunError` that names the processes whose death caused `error`; `error` itself if none has died."""
        is_of_others = "ollective" in str(error) or isinstance(error, tf.errors.UnavailableError)
        if signals.has_closed or not is_of_others:
            return error
        logging.info("a step failed (%s): looking for processes that died", type(error).__name__)
        lost = find_lost(self.config.members.others)
        time.sleep(_LINGER_SECONDS)  # the other replicas look for dead processes now, and must find this one alive
        return RunError(message_of_loss(lost)) if lost else error
