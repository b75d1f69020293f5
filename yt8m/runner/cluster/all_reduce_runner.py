"""The runner of a replica without parameter servers: the plain loop, with steps that all replicas take together.

The chief restores or initialises the variables, and every replica gets its values. From then on all have the same
variables, bit for bit, since each step applies the same sums to them. Only the chief writes; with exact_resume the
others add their positions in the data to its checkpoints. If a replica dies, all others end: restarted, they go on
from the newest checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from absl import logging

from yt8m import deploy
from yt8m.deploy.collective import collective_config
from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.runner import checkpoints, creation
from yt8m.runner.cluster import servers
from yt8m.runner.cluster.cluster_runner import ReplicaRunner
from yt8m.runner.cluster.peers import Watch, find_lost, message_of_loss, wait_for_all
from yt8m.runner.creation import CreatedGraph
from yt8m.runner.run_config import Outcome, Status
from yt8m.runner.runner import close_all, run_steps
from yt8m.runner.signals import StopSignals

_LINGER_SECONDS = 3.0


class AllReduceRunner(ReplicaRunner):
    """Trains as one of several replicas that each have all variables."""

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
        # Only from here on does this process wait without a limit of its own.
        self._watch = Watch(cluster.others, patience)
        try:
            with self._watch, tf.Session(runtime.target, config=session_config) as session:
                signals.guard(session)
                return self._train(session, team, start, self._all_hooks(team, files))
        except tf.errors.OpError as error:
            raise self._with_the_lost(error, signals) from error

    def _build(self, files: Sequence[str], signals: StopSignals) -> Any:
        """Builds the graph of this replica, and the parts that its hooks share."""
        from yt8m.runner.cluster.common_steps import Rounds, Team  # imports TensorFlow

        config, cluster = self.config, self.config.members
        collectives = deploy.AllReduce(cluster.replica, len(cluster.replicas), config.distributed.exchange_dtype)
        deployment = creation.deployment_for(config)
        ops = creation.replicate(config, self.inputter, self.modeler, deployment, collectives)
        waiting, rounds = collectives.waited(), Rounds(collectives)
        self._created = CreatedGraph(ops, None, None, None)
        if cluster.is_chief:
            self._created = creation.fill_from(ops, checkpoints.newest_readable(config.model_dir))
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
        """`error`, or one that names the processes that died."""
        is_of_others = "ollective" in str(error) or isinstance(error, tf.errors.UnavailableError)
        if signals.has_closed or not is_of_others:
            return error
        logging.info("a step failed (%s): looking for processes that died", type(error).__name__)
        lost = find_lost(self.config.members.others)
        time.sleep(_LINGER_SECONDS)  # the others now check which process died; they must find this one alive
        return RunError(message_of_loss(lost)) if lost else error
