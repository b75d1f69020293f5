"""Callbacks of a training run that check gradients, save checkpoints, export models and profile steps."""

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
    """Ends the run with an error at the first step in which the norm of a variable's gradient is not finite.

    Fetching the norms takes no extra time, because gradient clipping computes them anyway.
    """

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        """Requests the norms, and the index of the first tower with a gradient that is not finite."""
        ops = self.context.ops
        tower = {} if ops.bad_tower is None else {"tower": ops.bad_tower}
        return tf.train.SessionRunArgs({"norms": ops.gradient_norms, **tower})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Checks the norms of the step."""
        norms, tower = run_values.results["norms"], run_values.results.get("tower", -1)
        if np.isfinite(norms).all():
            return
        index = int(np.flatnonzero(~np.isfinite(norms))[0])
        on_tower = f" on tower {tower}" if tower >= 0 else ""
        raise RunError(
            f"step {self.context.step}: the gradient of {self.context.ops.gradient_variables[index]} is not "
            f"finite{on_tower} (its norm is {norms[index]}). The last checkpoint was saved before "
            "this step; lower the learning rate, or look for NaN in the features."
        )


class TrainBasic(Callback):
    """Saves a checkpoint when a new run starts, every N steps or minutes, and at the end; ends the run at max_steps.

    Gradients that are computed in closed form can be finite although the loss is not. So if a checkpoint is due after a
    step, the step fetches the loss, which is then checked. Other steps do not, because fetching it takes time.
    """

    saves = True

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        settings = context.config.checkpoints
        self._every = Every(settings.save_checkpoint_steps, settings.save_checkpoint_minutes * 60)

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Saves the first checkpoint of a new run; requests a stop if the run is already at its last step."""
        if not self.context.is_resumed:
            self.context.saver.save(session, self.context.step)
        self._every.restart(self.context.step)
        if self._is_over(self.context.step):
            step, last = self.context.step, self.context.config.max_steps
            logging.info("already at step %d of %d: there is nothing left to train", step, last)
            coord.request_stop()

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Requests the loss if a checkpoint will be saved after the step; tells the context what is planned."""
        next_step = self.context.step + 1
        is_over = self._is_over(next_step)
        is_saved = self._every.due(next_step) or is_over
        self.context.save_planned |= is_saved
        self.context.stop_planned |= is_over
        return tf.train.SessionRunArgs(self.context.ops.label_loss) if is_saved else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Saves a checkpoint if one is due; requests a stop after the last step."""
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
        """Saves a checkpoint if one is due. The chief of a cluster also calls this while it waits for its workers."""
        step = self.context.step
        if self._every.due(step) and (self.context.save_planned or not self.context.keeps_to_plan):
            self.context.saver.save(session, step)
            self._every.restart(step)

    def end(self, session: tf.Session) -> None:
        """Saves a checkpoint of the last step. This is called if the run ended without an error, for any reason."""
        self.context.saver.save(session, self.context.step)

    def _is_over(self, step: int) -> bool:
        """Whether the run ends after this step, because it has reached max_steps."""
        limit = self.context.config.max_steps
        return limit is not None and step >= limit


class TrainExport(Callback):
    """Saves a checkpoint and exports the model, every `export_model_steps` steps and at the end.

    Args:
      exporter: exports the model; it is called with the path and the step of the checkpoint, and with whether this
        start of the run took that step itself. It must build a graph of its own, because the graph of the run is
        finalized.
    """

    saves = True

    def __init__(self, context: Context, exporter: Callable[[str, int, bool], None]) -> None:
        super().__init__(context)
        self._exporter, self._exported, self._first = exporter, -1, 0
        self._every = Every(steps=context.config.checkpoints.export_model_steps)

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Counts `export_model_steps` from the step at which the run starts or resumes."""
        self._exported, self._first = -1, self.context.step
        self._every.restart(self._first)

    def before_run(self, run_context: Any) -> None:
        """Tells the context that a checkpoint will be saved, if the model is exported after the step."""
        self.context.save_planned |= self._every.due(self.context.step + 1)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Exports the model if an export is due."""
        if self._every.due(self.context.step):
            self._export(run_context.session)

    def end(self, session: tf.Session) -> None:
        """Exports the model after the last step."""
        self._export(session)

    def _export(self, session: tf.Session) -> None:
        """Saves a checkpoint of the current step and exports the model, unless this step was exported already."""
        step = self.context.step
        if step != self._exported:
            self._exporter(self.context.saver.save(session, step), step, step > self._first)
            self._every.restart(step)
            self._exported = step


class TrainProfile(Callback):
    """Records what each thread and device does during some steps, for TensorBoard's profiler.

    The record (trace) is written into the file `plugins/profile/<time>/<host>.xplane.pb`. A run that resumes at step
    `first` or later writes none.

    Args:
      folder: TensorBoard's log folder; empty for the folder of the run.
    """

    def __init__(self, context: Context, first: int, last: int, folder: str = "") -> None:
        super().__init__(context)
        self._first, self._last, self._folder = first, last, folder or context.config.model_dir
        self._is_tracing = False

    def before_run(self, run_context: Any) -> None:
        """Starts the trace before step `first`."""
        if self.context.step + 1 == self._first:
            tf.compat.v2.profiler.experimental.start(self._folder)
            self._is_tracing = True

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Ends the trace after step `last`."""
        if self._is_tracing and self.context.step >= self._last:
            self.close()

    def close(self) -> None:
        """Ends the trace, if one has begun, and writes its file."""
        if self._is_tracing:
            self._is_tracing = False
            tf.compat.v2.profiler.experimental.stop()
            logging.info("the trace of steps %d to %d is in %s", self._first, self.context.step, self._folder)
