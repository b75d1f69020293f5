"""Callbacks that guard, save, export and trace the steps of a training run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from absl import logging

from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.runner.hooks import Callback
from yt8m.runner.lines import Every
from yt8m.runner.run_config import Context


class TrainGuard(Callback):
    """Stops a run whose gradients are not finite: checks the norm of each variable's gradient at every step.

    The norms cost nothing, since clipping computes them anyway.
    """

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        """Requests the norms, and the tower that had the first bad gradient."""
        ops = self.context.ops
        tower = {} if ops.bad_tower is None else {"tower": ops.bad_tower}
        return tf.train.SessionRunArgs({"norms": ops.gradient_norms, **tower})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Raises `RunError` that names the step, the tower and the first variable with a bad gradient."""
        norms, tower = run_values.results["norms"], run_values.results.get("tower", -1)
        if np.isfinite(norms).all():
            return
        bad = int(np.flatnonzero(~np.isfinite(norms))[0])
        on_tower = f" on tower {tower}" if tower >= 0 else ""
        raise RunError(
            f"step {self.context.step}: the gradient of {self.context.ops.gradient_variables[bad]} is not "
            f"finite{on_tower} (its norm is {norms[bad]}). The last checkpoint was saved before "
            "this step; lower the learning rate, or look for NaN in the features."
        )


class TrainBasic(Callback):
    """Saves the first step, the last step, and steps in between every N steps or minutes; ends the run at max_steps.

    Gradients in closed form can be finite when the loss is not. So the loss of a step is checked before the step is
    saved, but not on other steps, since fetching it takes time.
    """

    saves = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        wanted = context.config.checkpoints
        self._every = Every(wanted.save_checkpoint_steps, wanted.save_checkpoint_minutes * 60)

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Saves the first checkpoint of a new run; requests a stop if the run is already at its last step."""
        if not self.context.is_resumed:
            self.context.saver.save(session, self.context.step)
        self._every.fired(self.context.step)
        if self._is_over(self.context.step):
            step, last = self.context.step, self.context.config.max_steps
            logging.info("already at step %d of %d: there is nothing left to train", step, last)
            coord.request_stop()

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Requests the loss if the step will be saved."""
        following = self.context.step + 1
        is_over = self._is_over(following)
        is_saved = self._every.due(following) or is_over
        self.context.save_planned |= is_saved
        self.context.stop_planned |= is_over
        return tf.train.SessionRunArgs(self.context.ops.label_loss) if is_saved else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Saves if a checkpoint is due; requests a stop after the last step.

        Raises:
          RunError: the loss is not finite.
        """
        loss = run_values.results
        if loss is not None and not np.isfinite(loss):
            raise RunError(
                f"step {self.context.step}: the loss is {loss}, so this step is not saved. The last "
                "checkpoint was saved before it; lower the learning rate, or check the data."
            )
        self.save_when_due(run_context.session)
        if self._is_over(self.context.step):
            run_context.request_stop()

    def save_when_due(self, session: tf.Session) -> None:
        """Saves if a checkpoint is due.

        A chief that waits for its workers also calls this, although it runs no steps.
        """
        step = self.context.step
        if self._every.due(step) and (self.context.save_planned or not self.context.keeps_to_plan):
            self.context.saver.save(session, step)
            self._every.fired(step)

    def end(self, session: tf.Session) -> None:
        """Saves the last step if the run ended without an error: end of data, max_steps or a signal."""
        self.context.saver.save(session, self.context.step)

    def _is_over(self, step: int) -> bool:
        limit = self.context.config.max_steps
        return limit is not None and step >= limit


class TrainExport(Callback):
    """Saves a checkpoint and exports it, every `export_model_steps` steps and at the end.

    Args:
      exporter: called with the checkpoint's path and its step. The session's graph is already finalized, so an exporter
        builds a graph of its own.
    """

    saves = True

    def __init__(self, context: Context, exporter: Callable[[str, int], None]) -> None:
        super().__init__(context)
        self._exporter, self._exported = exporter, -1
        self._every = Every(steps=context.config.checkpoints.export_model_steps)

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Starts to count at the step at which the run resumes."""
        self._every.fired(self.context.step)

    def before_run(self, run_context: Any) -> None:
        """Says so if the step will be saved."""
        self.context.save_planned |= self._every.due(self.context.step + 1)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Exports if an export is due."""
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
    """Traces what each thread and device does during some steps, for TensorBoard's profiler.

    The trace goes to `plugins/profile/<time>/<host>.xplane.pb`. A run that resumes after the first of these steps
    traces nothing.

    Args:
      context: the context of the run.
      first: the first step of the trace.
      last: the last step of the trace; the end of the run finishes it too.
      folder: TensorBoard's log folder; empty for the run's own.
    """

    def __init__(self, context: Context, first: int, last: int, folder: str = "") -> None:
        super().__init__(context)
        self._first, self._last, self._folder = first, last, folder or context.config.model_dir
        self._is_tracing = False

    def before_run(self, run_context: Any) -> None:
        """Starts the trace before its first step."""
        if self.context.step + 1 == self._first:
            tf.compat.v2.profiler.experimental.start(self._folder)
            self._is_tracing = True

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Ends the trace after its last step."""
        if self._is_tracing and self.context.step >= self._last:
            self.close()

    def close(self) -> None:
        """Writes the trace."""
        if self._is_tracing:
            self._is_tracing = False
            tf.compat.v2.profiler.experimental.stop()
            logging.info("the trace of steps %d to %d is in %s", self._first, self.context.step, self._folder)
