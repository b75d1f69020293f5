"""Stops a run whose gradients are no longer numbers.

Checkpoints, and the end at max_steps.

Exports of the model while it is trained.

A trace of chosen steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from absl import logging

from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.runner.callbacks.base import Callback
from yt8m.runner.lines import Every
from yt8m.runner.run_config import Context


class TrainGuard(Callback):
    """Looks at the norm of each variable's gradient, which clipping computes anyway, at every step."""

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        """Asks for the norms, and for the tower to blame."""
        ops = self.context.ops
        tower = {} if ops.bad_tower is None else {"tower": ops.bad_tower}
        return tf.train.SessionRunArgs({"norms": ops.gradient_norms, **tower})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Raises `RunError` naming the step, the tower and the first variable with a bad gradient."""
        norms, tower = run_values.results["norms"], run_values.results.get("tower", -1)
        if np.isfinite(norms).all():
            return
        bad = int(np.flatnonzero(~np.isfinite(norms))[0])
        where = f" on tower {tower}" if tower >= 0 else ""
        raise RunError(
            f"step {self.context.step}: the gradient of {self.context.ops.gradient_variables[bad]} is not "
            f"finite{where} (its norm is {norms[bad]}). The last checkpoint is from before; "
            "lower the learning rate, or look for NaN in the features."
        )


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


class TrainExport(Callback):
    """Saves a checkpoint and has it exported, every `export_model_steps` and at the end.

    Args:
      exporter: takes the checkpoint's path and its step. The session's graph is finalized by then, so
        an exporter builds one of its own.
    """

    def __init__(self, context: Context, exporter: Callable[[str, int], None]) -> None:
        super().__init__(context)
        self._exporter, self._exported = exporter, -1
        self._every = Every(steps=context.config.checkpoints.export_model_steps)

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Counts from where the run goes on."""
        self._every.fired(self.context.step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Exports when it is due."""
        if self._every.due(self.context.step):
            self._export(run_context.session)

    def end(self, session: tf.Session) -> None:
        """Exports the last step."""
        self._export(session)

    def _export(self, session: tf.Session) -> None:
        step = self.context.step
        if step != self._exported:
            self._exporter(self.context.saver.save(session, step), step)
            self._every.fired(step)
            self._exported = step


class TrainProfile(Callback):
    """Writes what each thread and device did in some steps, for the profiler of TensorBoard.

    The trace goes to `plugins/profile/<time>/<host>.xplane.pb`. A run that is resumed behind the first step
    traces nothing.

    Args:
      context: of the run.
      first: step whose beginning starts the trace.
      last: step whose end finishes it; the run's end does so too.
      folder: that TensorBoard is given; empty for the run's own.
    """

    def __init__(self, context: Context, first: int, last: int, folder: str = "") -> None:
        super().__init__(context)
        self._first, self._last, self._folder = first, last, folder or context.config.model_dir
        self._is_tracing = False

    def before_run(self, run_context: Any) -> None:
        """Starts the trace where the step about to run is the first."""
        if self.context.step + 1 == self._first:
            tf.compat.v2.profiler.experimental.start(self._folder)
            self._is_tracing = True

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Ends it behind the last."""
        if self._is_tracing and self.context.step >= self._last:
            self.close()

    def close(self) -> None:
        """Writes the trace."""
        if self._is_tracing:
            self._is_tracing = False
            tf.compat.v2.profiler.experimental.stop()
            logging.info("the trace of steps %d to %d is in %s", self._first, self.context.step, self._folder)
