"""Validation during training: every N epochs or steps, training pauses, saves a checkpoint and evaluates it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from absl import logging

from yt8m import storage
from yt8m.config import run_dir
from yt8m.errors import RunError, UsageError
from yt8m.lazy import tf
from yt8m.runner.hooks import Callback
from yt8m.runner.lines import StepValues, validation_line
from yt8m.runner.metric_files import EventFile
from yt8m.runner.run_config import Context
from yt8m.runner.signals import StopSignals
from yt8m.runner.validation_history import Best, History, row_of

# (path of a checkpoint, signals) -> the values of its validation; None if a signal ended the evaluation.
Validate = Callable[[str, StopSignals], StepValues | None]


class TrainValidation(Callback):
    """Validates every N epochs or steps, and at the end of the training, unless a signal ended the training.

    A validation saves a checkpoint and evaluates it on the validation data.

    Args:
      validate: evaluates a checkpoint. It is called with the checkpoint's path and the signals that may stop the run,
        and returns the loss and the metrics, or None if a signal ended the evaluation.
      epochs: number of epochs between two validations; ignored if `steps` is given.
      steps: number of steps between two validations; None to count epochs.
      folder: folder of the event files; empty for the folder of the run.
      best: how the best checkpoint is chosen and kept, and when training ends early; None to do neither.
      data: describes the validation data, see the argument `data` of `validation_history.History`; None if the data are
        not known.
    """

    saves = True

    def __init__(
        self,
        context: Context,
        validate: Validate,
        epochs: int = 1,
        steps: int | None = None,
        folder: str = "",
        best: Best | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(context)
        self._best = best
        self._validate, self._interval, self._counts_steps = validate, steps or epochs, steps is not None
        self._history = History(context.config.model_dir, best, data)
        self._last = 0  # the number of completed steps or epochs at the last validation
        # The number of completed epochs, computed from the number of the newest shard; 0 if records are counted.
        self._epochs = 0
        # Two event files in two folders have the same tags, so that TensorBoard shows both curves in one chart.
        files = (EventFile(storage.join(folder or context.config.model_dir, name)) for name in run_dir.CURVES)
        self._training_events, self._validation_events = files
        context.line.listen(self._write_scalars, validations=True)

    def begin(self) -> None:
        """Checks that epochs can be counted, if validations are to follow epochs."""
        countable = self.context.records or self.context.ops.input.last_shard is not None
        if not self._counts_steps and not countable:
            raise UsageError(
                "validations follow epochs, which cannot be counted in these data: neither the number of records nor "
                "the order of the shards is known. Give --eval_every_n_steps."
            )

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Reads the earlier validations; repeats the validation of the restored step if it was interrupted.

        Requests a stop of the run if the last `Best.patience` validations were not better than an earlier one.
        """
        step = self.context.step
        if self.context.is_resumed:
            self._history.read(step)
        self._epochs = self._history.last_epochs
        self._last = self._count_completed(self._history.last_step)
        if self._history.pending == step:
            self._epochs = self._history.pending_epochs
            self._validate_now(session)
        if self._is_out_of_patience():
            coord.request_stop()

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Requests the number of the newest shard if epochs are counted and the number of records is not known."""
        if self._counts_steps or self.context.records:
            return None
        return tf.train.SessionRunArgs(self.context.ops.input.last_shard)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Validates if the count of epochs or steps has reached or passed a multiple of N.

        Requests a stop of the run if the last `Best.patience` validations were not better than an earlier one.
        """
        if run_values.results is not None:
            self._epochs = max(int(run_values.results), 0) // max(self.context.num_files, 1)
        if self._count_completed(self.context.step) // self._interval > self._last // self._interval:
            self.context.line.emit(self.context.step, self.context.global_step)
            self._validate_now(run_context.session)
            if self._is_out_of_patience():
                run_context.request_stop()

    def end(self, session: tf.Session) -> None:
        """Validates the last step, unless it was validated or a signal ended the training.

        The results get the values of all validations, `validations`.
        """
        signals = self.context.signals
        if self._history.last_step != self.context.step and not (signals and signals.requested):
            self._validate_now(session)
        self.context.results["validations"] = self._history.rows

    def close(self) -> None:
        """Closes the event files."""
        self._training_events.close()
        self._validation_events.close()

    def _write_scalars(self, values: StepValues) -> None:
        """Writes the values of a log line or of a validation into the event file of its kind."""
        events = self._validation_events if values.is_validation else self._training_events
        events.add_scalars(row_of(values), values.step)

    def _count_completed(self, step: int) -> int:
        """The number of steps, or of whole epochs if epochs are counted, that are completed after `step` steps."""
        if self._counts_steps:
            return step
        config, records = self.context.config, self.context.records
        examples = step * (config.batch_size_per_gpu or 0) * config.towers
        return examples // records if records else self._epochs

    def _validate_now(self, session: tf.Session) -> None:
        """Saves a checkpoint, validates it unless a signal has asked the run to stop, and writes down the result.

        The checkpoint is kept as the best one if it is better than all before.
        """
        context, signals = self.context, self.context.signals
        assert signals is not None
        start_time, step = time.monotonic(), context.step
        self._history.begin(step, self._epochs)
        checkpoint = context.saver.save(session, step)
        values = None if signals.requested else self._validate(checkpoint, signals)
        if values is None:
            logging.info("the validation of step %d was interrupted: a resumed run repeats it", step)
            return
        values.elapsed_seconds = time.monotonic() - start_time
        logging.info("%s", validation_line(values))
        self._refuse_missing_metric(values)
        if self._best and self._history.is_better(values):
            self._best.keep(checkpoint, values)
        context.line.emit_validation(values)
        self._history.add(values, self._epochs)
        self._last = self._count_completed(step)
        context.line.paused_seconds += time.monotonic() - start_time

    def _refuse_missing_metric(self, values: StepValues) -> None:
        """Raises `RunError` if the validation did not compute the metric that chooses the best checkpoint."""
        if self._best and self._best.metric not in (row := row_of(values)):
            raise RunError(
                f"--best_metric={self._best.metric}: this metric cannot be computed on the validation data. Name one "
                f"of {', '.join(row)}, and start again: training resumes at step {values.step}."
            )

    def _is_out_of_patience(self) -> bool:
        """Whether no validation among the last `patience` ones was better than an earlier one.

        If so, this sets `context.ending`, which says why the run ends.
        """
        best = self._best
        if best is None or best.patience is None:
            return False
        count, row = self._history.since_best()
        if count < best.patience:
            return False
        best_value = f"; the best is {row[best.metric]:.4f}, of step {row['step']}" if row else ""
        self.context.ending = f"no better {best.metric} in {count} validations (--patience={best.patience}){best_value}"
        return True
