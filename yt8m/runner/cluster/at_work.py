"""A replica at work, and how the chief waits for the others at the end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from absl import logging

from yt8m.deploy.cluster import ClusterConfig
from yt8m.lazy import tf
from yt8m.runner.cluster.graph import ReplicaGraph
from yt8m.runner.context import Context
from yt8m.runner.signals import StopSignals
from yt8m.runner.watchdog import Watchdog

POLL_SECONDS = 0.5


@dataclass(frozen=True)
class AtWork:
    """What one replica's run consists of; `hooks` are filled in when they are made."""

    replica: ReplicaGraph
    context: Context
    signals: StopSignals
    watchdog: Watchdog
    files: Sequence[str] = ()
    hooks: list[Any] = field(default_factory=list)

    def sync_hooks(self) -> list[Any]:
        """Those that common steps need; none where each replica steps by itself."""
        from yt8m.runner.cluster.hooks import CommonStepsHook, IdleHook

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
                logging.warning(
                    "GIVING UP %s: no step for %g s. Its part of the data may be unread", names, patience
                )
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
