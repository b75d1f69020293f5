"""The runners of the replicas of a cluster, which are the chief and the workers.

They use the same callbacks as a training on one machine. Each replica reads its own part of the data.

With parameter servers, every replica trains in a MonitoredSession, and the chief ends last.

With all-reduce, all replicas take each step together. The chief restores or initialises the variables and sends their
values to the workers. From then on the variables of all replicas are equal bit for bit, because each step applies the
same sums to them. Only the chief writes files, except that with exact_resume each worker adds its position in the data
to the chief's checkpoints. If a replica dies, all others end; when all are started again, they resume from the newest
checkpoint.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from absl import logging

from yt8m import deploy, forks
from yt8m.deploy.collective import collective_config
from yt8m.errors import RunError, UsageError, first_line
from yt8m.lazy import tf
from yt8m.runner import checkpoints, creation, failed_input
from yt8m.runner.cluster import exchange, failures, servers
from yt8m.runner.cluster.peers import Watch, find_lost, message_of_loss, responds, wait_for_all
from yt8m.runner.cluster.replica import ChiefCreator, StoppedWaiting, WorkerCreator, build_replica
from yt8m.runner.cluster.shared_flags import fingerprint
from yt8m.runner.creation import CreatedGraph
from yt8m.runner.run_config import CallbackConfig, Context, Outcome, Status
from yt8m.runner.runner import Runner, close_all, end_all, explain, is_end_of_data, outcome_of, run_steps
from yt8m.runner.saver import SavedPosition, WorkerSaver
from yt8m.runner.signals import StopSignals

T = TypeVar("T")

POLL_SECONDS = 0.5  # the interval at which a chief that waits for the workers looks how far they are
LAST_STEP_SECONDS = 20.0  # time for which a chief at max_steps waits for the other replicas' current step
# A replica stays alive for this time after a step failed, so that other replicas, which look for the dead process, see
# that this one is alive.
_LINGER_SECONDS = 3.0
# A session waits for its threads for this time when it is closed. The thread that sums gradients never ends by itself.
_STOP_SECONDS = 2
_SERVER_PATIENCE = 2.0  # a replica that failed looks for so long for a parameter server that it tells of the error
# The callbacks that only the chief has, because only the chief may write files.
_CHIEF_CALLBACKS = ("train_summary", "train_export")


class ReplicaRunner(Runner):
    """The base class of the runners for parameter servers and for all-reduce.

    Each replica reads its own part of the data; only the chief writes the files of the run.
    """

    _flags: int | None = None  # the `fingerprint` that the chief writes into cluster.json; None with all-reduce
    _marker: exchange.RunMarker | None = None  # what the chief has written into cluster.json; None on a worker

    def run(self) -> Outcome:
        """Runs to the end, as in `Runner`; tells the other processes of an error."""
        try:
            outcome = super().run()
        except UsageError as error:
            self._report(error)
            raise
        if outcome.error is not None:
            self._report(outcome.error)
        return outcome

    def _report(self, error: Exception) -> None:
        """Tells the other processes that this replica ends with an error."""
        failures.report(self.config.members, error, True, _SERVER_PATIENCE)

    def _take_share(self) -> list[str]:
        """Limits the inputter to this replica's part of the data; returns the files of that part."""
        cluster = self.config.members
        self.inputter = self.inputter.share(cluster.replica, len(cluster.replicas))
        return list(self.inputter.files())

    def _create_replica_context(
        self, created: CreatedGraph, files: Sequence[str]
    ) -> tuple[Context, SavedPosition | None]:
        """Creates the context that the callbacks of this replica share.

        The chief writes into cluster.json that the run has begun. A worker gets no callback and no saver that write
        files.

        Returns:
          The context, and the position in the data; None if the position is not saved, and on a worker.
        """
        if self.config.members.is_chief:
            self._marker = exchange.begin_run_marker(self.config.model_dir, self._flags)
            return self._create_context(created, files)
        self.callbacks = remove_chief_callbacks(self.callbacks)
        saver = WorkerSaver(self.config.model_dir)
        return self._create_context(dataclasses.replace(created, saver=None, checkpoint=None), files, saver=saver)

    def _finish(self, context: Context, signals: StopSignals) -> Outcome:
        """The outcome of a run that ended without an error.

        The chief writes into cluster.json that the run has ended, unless a signal ended it: the run may then go on.
        """
        outcome = outcome_of(context, signals)
        if self._marker is not None and outcome.status is not Status.STOPPED:
            exchange.end_run_marker(self.config.model_dir, self._marker, context.global_step)
        return outcome


class ClusterRunner(ReplicaRunner):
    """Trains as one replica of a cluster with parameter servers.

    If a parameter server is lost, MonitoredSession opens a new session, for which the chief restores the newest
    checkpoint. The chief saves checkpoints, writes summaries, exports the model, and ends last. A worker only logs; it
    ends if the chief ends. A replica that fails tells the parameter servers; `failures` says what that means.
    """

    def _report(self, error: Exception) -> None:
        """As above; the chief also tells the evaluator."""
        is_sync = self.config.distributed.sync_replicas
        failures.report(self.config.members, error, is_sync, _SERVER_PATIENCE)
        if self._marker is not None and (is_sync or isinstance(error, failures.JobOverError)):
            exchange.fail_run_marker(self.config.model_dir, self._marker, first_line(error))

    def _run(self, signals: StopSignals) -> Outcome:
        """Trains, and then tells the parameter servers that this replica no longer needs them."""
        from yt8m.runner.cluster.replica_hooks import BeatHook, ReplicaHook  # importing this module imports TensorFlow

        cluster = self.config.members
        servers_by_name = {f"parameter server {i} ({address})": address for i, address in enumerate(cluster.servers)}
        with Watch(servers_by_name | cluster.others, self.config.distributed.stall_timeout) as self._watch:
            if self.config.distributed.sync_replicas:
                self._watch.need_once_seen(cluster.others, failures.DEAD_SECONDS, self._end_job_without)
            self._signals, self._files = signals, self._take_share()
            self._graph = build_replica(self.config, self.inputter, self.modeler)
            # A worker may have no moving averages, which are not trainable.
            self._flags = fingerprint(self.config, tf.trainable_variables())
            newest = checkpoints.newest_readable(self.config.model_dir) if cluster.is_chief else None
            created = CreatedGraph(self._graph.ops, self._graph.saver, newest, None)
            # Before the server starts: if the chief answers, the flags in cluster.json are its flags.
            self._context, _ = self._create_replica_context(created, self._files)
            runtime = servers.start(
                cluster, dict(creation.deployment_for(self.config, quiet=True).session_config().device_count)
            )
            self._hooks: list[Any] = []
            try:
                self._replica_hook = ReplicaHook(cluster, self._graph.state, signals, self._graph.synchrony)
                self._hooks += [self._replica_hook, *self._create_hooks(self._context, self._files, None)]
                outcome = self._train_monitored([*self._hooks, BeatHook(self._watch)], runtime.target)
                if outcome.status is not Status.STOPPED:  # a process that a signal stopped may be started again
                    exchange.say_done(cluster, runtime)
                return outcome
            finally:
                self._step = self._context.global_step
                close_all(self._hooks)

    def _session_creator(self, target: str) -> Any:
        """The object that opens this replica's sessions on its own TensorFlow server, whose address is `target`."""
        if self._marker is not None:
            return ChiefCreator(target, self._graph, self._context, self._marker.run, self.modeler)
        return WorkerCreator(target, self._graph, self._context, self._flags, lambda: self._signals.requested)

    def _train_monitored(self, hooks: Sequence[Any], target: str) -> Outcome:
        """Trains in a MonitoredSession; the chief then waits for the workers."""
        cluster, signals, context = self.config.members, self._signals, self._context
        try:
            with (
                tf.train.MonitoredSession(self._session_creator(target), list(hooks), _STOP_SECONDS) as session,
                self._saving_if_over(),
            ):
                is_end = self._run_steps(session)
                if is_end:
                    self._step_idly(session)
                self._watch.need_none()
                if not signals.requested:
                    self._call_in_session(session, lambda raw: self._graph.state.set_ended(raw, cluster.replica))
                    if cluster.is_chief:
                        self._wait_for_workers(session, self._worker_patience())
                signals.renew_grace()
                # The final save needs the parameter servers, but no other replica.
                self._watch.leave_alone(lambda: all(map(responds, cluster.servers)))
        except StoppedWaiting as reason:
            if not signals.requested:
                return Outcome(Status.FINISHED, context.global_step, str(reason))
            return Outcome(Status.STOPPED, context.global_step, "stopped by a signal", signals.signal)
        context.has_read_all = is_end
        return self._finish(context, signals)

    def _end_job_without(self, names: Sequence[str]) -> None:
        """Ends the whole job because the replicas called `names` died, without which no common step is possible."""
        failures.end_job(
            self.config.members,
            f"lost {', '.join(names)}: no connection has been accepted there for {failures.DEAD_SECONDS:g} s, and with "
            "--sync_replicas no step is possible without it",
            names,
        )

    @contextlib.contextmanager
    def _saving_if_over(self) -> Iterator[None]:
        """A context in which the chief saves its last step before `JobOverError` goes on."""
        try:
            yield
        except failures.JobOverError:
            context, session = self._context, self._replica_hook.session
            if self.config.members.is_chief and session is not None:
                logging.info("the job is over: saving the last step")
                context.step = context.global_step = int(session.run(self._graph.ops.global_step))
                context.saver.save(session, context.step)
            raise

    def _run_steps(self, session: Any) -> bool:
        """Runs steps until all data were read, or a hook or a signal requests a stop."""
        try:
            while not session.should_stop() and not self._signals.requested:
                session.run(self._graph.ops.train_op)
        except tf.errors.OutOfRangeError as error:
            if not is_end_of_data(error):
                # It may come from the queue of common steps, which is closed if the job is over.
                self._call_in_session(session, self._replica_hook.check_job)
                raise RunError(explain(error)) from error
            return True
        return False

    def _step_idly(self, session: Any) -> None:
        """Takes part in synchronous steps, with weight 0, until all replicas have read their data."""
        if self._graph.synchrony is None:  # the replicas train asynchronously
            return
        logging.info("this replica has read all its data: it takes part with weight 0 until all replicas have")
        replica_hook, inputs = self._replica_hook, self._graph.ops.input
        replica_hook.is_idle, steps_before = True, -1
        while steps_before < replica_hook.steps and not session.should_stop() and not self._signals.requested:
            steps_before = replica_hook.steps
            # A step needs a batch, so the data are read again.
            self._call_in_session(session, lambda raw: raw.run(inputs.initializer, {inputs.files: self._files}))
            if not self._run_steps(session):
                return

    def _call_in_session(self, session: Any, call: Callable[[tf.Session], T]) -> T:
        """Calls `call` with the TensorFlow session of a MonitoredSession, outside of a step, and returns its result.

        If a parameter server is lost meanwhile, `call` is called again in the session that is then opened. TensorFlow
        would give it the closed session once more, so the session comes from the hook that prepares each new one.
        """

        def step_fn(step_context: Any) -> T:  # noqa: ARG001 - TensorFlow requires this parameter
            return call(self._replica_hook.session)

        return session.run_step_fn(step_fn)  # type: ignore[no-any-return]

    def _wait_for_workers(self, session: Any, patience: float) -> None:
        """Makes the chief wait for the workers, so that the last checkpoint includes the steps of all replicas.

        Args:
          patience: the chief stops waiting if the workers take no step for this number of seconds.
        """
        last_step, since = -1, time.monotonic()
        while not self._signals.requested:
            missing, step = self._call_in_session(session, self._check_replicas)
            if not missing:
                return
            if step > last_step:
                last_step, since = step, time.monotonic()
            elif time.monotonic() - since > patience:
                names = ", ".join(map(self.config.members.replica_name, sorted(missing)))
                logging.warning("NO LONGER WAITING FOR %s: no step for %g s. Some data may be unread", names, patience)
                return
            self._watch.beat()
            time.sleep(POLL_SECONDS)

    def _check_replicas(self, session: tf.Session) -> tuple[set[int], int]:
        """Finds out how far the workers are, and saves a checkpoint if one is due."""
        self._replica_hook.check_job(session)
        missing = set(range(1, len(self.config.members.replicas))) - self._graph.state.ended(session)
        missing -= self._replica_hook.failed_workers(session)
        context = self._context
        context.step = context.global_step = int(session.run(self._graph.ops.global_step))
        for hook in self._hooks:
            save_when_due = getattr(hook, "save_when_due", None)
            if save_when_due is not None:
                save_when_due(session)
        return missing, context.step

    def _worker_patience(self) -> float:
        """The seconds for which the chief waits for a step of the workers: `stall_timeout`, or less at max_steps.

        At max_steps each worker only has to end the step that it is taking.
        """
        limit = self.config.max_steps
        is_last = limit is not None and self._context.step >= limit
        return LAST_STEP_SECONDS if is_last else self.config.distributed.stall_timeout


def remove_chief_callbacks(callbacks: CallbackConfig) -> CallbackConfig:
    """The callbacks of a worker: `callbacks` without `train_summary` and `train_export`, which write files."""
    from yt8m.runner.callbacks import DEFAULTS

    names = [name for name in callbacks.names if name.removeprefix("-") not in _CHIEF_CALLBACKS]
    names += [f"-{name}" for name in _CHIEF_CALLBACKS if name in DEFAULTS["train"]]
    options = {name: values for name, values in callbacks.options.items() if name not in _CHIEF_CALLBACKS}
    return CallbackConfig(tuple(names), options)


class AllReduceRunner(ReplicaRunner):
    """Trains as one of several replicas, each of which has all variables. The replicas add up their gradients."""

    def _run(self, signals: StopSignals) -> Outcome:
        """Builds the graph, waits until all replicas have started, and trains."""
        cluster = self.config.members
        patience = self.config.distributed.stall_timeout
        files = self._take_share()
        team = self._build_team(files, signals)
        initializers = creation.initializers(self._created)
        deployment = creation.deployment_for(self.config, quiet=True)
        session_config = creation.session_config(deployment, self.config.devices)
        tf.get_default_graph().finalize()
        runtime = servers.start(cluster, dict(session_config.device_count), collective_config())
        greet = functools.partial(failures.refuse_failed, cluster)
        if not wait_for_all(cluster.others, lambda: signals.requested, patience, greet):
            return Outcome(Status.STOPPED, 0, "stopped by a signal", signals.signal)
        # From here on this process runs collectives, which have no time limit, so `Watch` must look for dead replicas.
        self._watch = Watch(cluster.others, patience)
        try:
            with self._watch, forks.new_session(runtime.target, config=session_config) as session:
                signals.guard(session)
                return self._train(session, team, initializers, self._create_all_hooks(team, files))
        except tf.errors.OpError as error:
            raise self._name_lost_processes(error, signals) from error

    def _build_team(self, files: Sequence[str], signals: StopSignals) -> Any:
        """Builds the graph of this replica, and the state that its hooks share."""
        from yt8m.runner.cluster.common_steps import Rounds, Team  # importing this module imports TensorFlow

        config, cluster = self.config, self.config.members
        collectives = deploy.AllReduce(cluster.replica, len(cluster.replicas), config.distributed.exchange_dtype)
        deployment = creation.deployment_for(config)
        ops = creation.replicate(config, self.inputter, self.modeler, deployment, collectives)
        waiting, rounds = collectives.waited(), Rounds(collectives)
        self._created = CreatedGraph(ops, None, None, None)
        if cluster.is_chief:
            is_exact = config.checkpoints.exact_resume
            checkpoint = failed_input.checkpoint_to_resume(config.model_dir, is_exact)
            self._created = creation.for_training(ops, checkpoint)
        context, position = self._create_replica_context(self._created, files)
        position = position or self._create_position(self._created, files)
        return Team(collectives, rounds, context, signals, waiting, position)

    def _example_order(self) -> dict[str, Any]:
        """As in `Runner`; the order also depends on which part of the data this replica reads."""
        cluster = self.config.members
        return {**super()._example_order(), "replica": cluster.replica, "replicas": len(cluster.replicas)}

    def _create_all_hooks(self, team: Any, files: Sequence[str]) -> list[Any]:
        """Creates the hooks of this replica: those of every run, and those by which replicas act together."""
        from yt8m.runner.cluster.common_steps import AgreeHook, AnnounceHook
        from yt8m.runner.cluster.replica_hooks import BeatHook
        from yt8m.runner.hooks import StepHook

        hooks = self._create_hooks(team.context, files, team.position)
        first = 1 + next(index for index, hook in enumerate(hooks) if isinstance(hook, StepHook))
        return [*hooks[:first], AgreeHook(team), *hooks[first:], AnnounceHook(team), BeatHook(self._watch)]

    def _train(self, session: tf.Session, team: Any, first: Sequence[tf.Operation], hooks: list[Any]) -> Outcome:
        """Trains from the first step to the end, together with all other replicas."""
        from yt8m.runner.cluster.common_steps import CommonContext

        context, config = team.context, self.config
        self._watch.need_all()
        try:
            for hook in hooks:
                hook.begin()
            context.is_resumed = team.rounds.greet(session, config, context.is_resumed)
            creation.start_session(session, self._created, first, config)
            self.modeler.restore(session)
            team.rounds.broadcast(session)
            run_steps(session, context.ops, hooks, team, CommonContext(session, team))
            self._watch.need_none()
            team.rounds.part(session)
            context.has_read_all = team.has_read_all
            team.signals.renew_grace()
            self._watch.leave_alone(lambda: True)
            end_all(hooks, session, context)
        finally:
            self._step = context.global_step
            close_all(hooks)
        if team.by_signal:
            message = "a process got a signal to stop"
            return Outcome(Status.STOPPED, context.global_step, message, team.signals.signal)
        return self._finish(context, team.signals)

    def _name_lost_processes(self, error: tf.errors.OpError, signals: StopSignals) -> Exception:
        """A `RunError` that names the processes whose death caused `error`; `error` itself if none has died."""
        may_be_of_others = "ollective" in str(error) or isinstance(error, tf.errors.UnavailableError)
        if signals.has_closed or not may_be_of_others:
            return error
        logging.info("a step failed (%s): looking for processes that died", type(error).__name__)
        lost = find_lost(self.config.members.others)
        time.sleep(_LINGER_SECONDS)  # the other replicas look for dead processes now, and must find this one alive
        return RunError(message_of_loss(lost)) if lost else error
