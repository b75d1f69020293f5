"""Checkpoints, and the end at max_steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from absl import logging

from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.runner.callbacks.base import Callback
from yt8m.runner.context import Context
from yt8m.runner.every import Every


class TrainBasic(Callback):
    """Saves the first step, every so many steps or minutes, and the last step always.

    Gradients in closed form can be finite where the loss is not, so the loss of a step that will be saved is
    looked at before. Of the other steps it is not: it is not free.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        wanted = context.config.checkpoints
        self._every = Every(wanted.save_checkpoint_steps, wanted.save_checkpoint_minutes * 60)

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Saves a fresh start; a run that is at its end already asks to stop."""
        if not self.context.is_resumed:
            self.context.saver.save(session, self.context.step)
        self._every.fired(self.context.step)
        if self._is_over(self.context.step):
            step, last = self.context.step, self.context.config.max_steps
            logging.info("already at step %d of %d: there is nothing left to train", step, last)
            coord.request_stop()

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Asks for the loss where the step will be saved."""
        following = self.context.step + 1
        is_saved = self._every.due(following) or self._is_over(following)
        return tf.train.SessionRunArgs(self.context.ops.label_loss) if is_saved else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Saves when it is due; asks to stop when the steps are done.

        Raises:
          RunError: the loss is not finite.
        """
        loss = run_values.results
        if loss is not None and not np.isfinite(loss):
            raise RunError(
                f"step {self.context.step}: the loss is {loss}, so this step is not saved. The last "
                "checkpoint is from before; lower the learning rate, or look into the data."
            )
        self.save_when_due(run_context.session)
        if self._is_over(self.context.step):
            run_context.request_stop()

    def save_when_due(self, session: tf.Session) -> None:
        """Also called by a chief that waits for its workers, without a step of its own."""
        step = self.context.step
        if self._every.due(step):
            self.context.saver.save(session, step)
            self._every.fired(step)

    def end(self, session: tf.Session) -> None:
        """Saves the last step, whatever ended the run well: the data, max_steps, a signal."""
        self.context.saver.save(session, self.context.step)

    def _is_over(self, step: int) -> bool:
        limit = self.context.config.max_steps
        return limit is not None and step >= limit
