"""Validation while training: a checkpoint is evaluated every N epochs or steps, while training pauses.

`validation.json` in the run's folder has the figures of each validation, and names the one that has begun. It is
written before the checkpoint is saved, and again when the figures are known. So a run that was killed in the middle
of a validation repeats it first of all, and validates at the same steps as a run that was never killed.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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
from yt8m.storage import json_text

NAME = "validation.json"
Validate = Callable[[str, StopSignals], StepValues | None]


class Best(NamedTuple):
    """Which checkpoint is the best.

    Attributes:
      metric: the name of the figure that decides; `loss` is one too.
      higher_is_better: whether a higher value is better.
      keep: called with the path of each checkpoint that is better than all before, and its figures.
      patience: number of validations after the best one with which training ends; None for no such end.
    """

    metric: str
    higher_is_better: bool
    keep: Callable[[str, StepValues], None]
    patience: int | None = None


class TrainValidation(Callback):
    """Validates checkpoints of the training, and the last one if the training ends by itself.

    Args:
      context: the context of the run.
      validate: called with a checkpoint's path and the signals to stop; gives its figures, or None if a signal came.
      epochs: number of epochs between two validations, if `steps` is None.
      steps: number of steps between two validations; None to count epochs.
      folder: folder of the event files; empty for the run's own.
      best: which checkpoint is kept as the best, and how long training goes on without a better one; None for neither.
    """

    def __init__(
        self,
        context: Context,
        validate: Validate,
        epochs: int = 1,
        steps: int | None = None,
        folder: str = "",
        best: Best | None = None,
    ) -> None:
        super().__init__(context)
        self._best = best
        self._validate, self._interval, self._counts_steps = validate, steps or epochs, steps is not None
        self._history = History(context.config.model_dir)
        self._last, self._shard = 0, -1
        self._curves = _Curves(context, folder or context.config.model_dir)

    def begin(self) -> None:
        """Refuses data whose epochs cannot be counted."""
        countable = self.context.records or self.context.ops.input.last_shard is not None
        if not self._counts_steps and not countable:
            raise UsageError("the end of an epoch cannot be seen in these data: give --eval_every_n_steps.")

    def after_create_session(self, session: tf.Session, coord: tf.train.Coordinator) -> None:
        """Reads the earlier validations; repeats the one that was interrupted at the step of the checkpoint."""
        step = self.context.step
        if self.context.is_resumed:
            self._history.read(step)
        self._last = self._passed_by(self._history.last_step, self._history.passed)
        if self._history.pending == step:
            self._run(session, self._passed_by(step, self._history.pending_passed))
        if self._is_out_of_patience():
            coord.request_stop()

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs | None:
        """Requests the number of the newest shard, if only that shows where an epoch ends."""
        if self._counts_steps or self.context.records:
            return None
        return tf.train.SessionRunArgs(self.context.ops.input.last_shard)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Validates if that is due."""
        if run_values.results is not None:
            self._shard = int(run_values.results)
        passed = self._passed_by(self.context.step, max(self._shard, 0) // max(self.context.num_files, 1))
        if passed // self._interval > self._last // self._interval:
            self.context.line.emit(self.context.step, self.context.global_step)
            self._run(run_context.session, passed)
            if self._is_out_of_patience():
                run_context.request_stop()

    def end(self, session: tf.Session) -> None:
        """Validates the last checkpoint, unless a signal ended the training."""
        signals = self.context.signals
        if self._history.last_step != self.context.step and not (signals and signals.requested):
            self._run(session, self._last)
        self.context.results["validations"] = self._history.rows

    def close(self) -> None:
        """Closes the event files."""
        self._curves.close()

    def _passed_by(self, step: int, epochs: int) -> int:
        """The number of steps or epochs that have passed by `step`; `epochs` counts if only shards show it."""
        if self._counts_steps:
            return step
        config, records = self.context.config, self.context.records
        examples = step * (config.batch_size_per_gpu or 0) * config.towers
        return examples // records if records else epochs

    def _run(self, session: tf.Session, passed: int) -> None:
        context, signals = self.context, self.context.signals
        assert signals is not None
        begun, step = time.monotonic(), context.step
        self._history.begin(step, passed)
        checkpoint = context.saver.save(session, step)
        values = None if signals.requested else self._validate(checkpoint, signals)
        if values is None:
            logging.info("the validation of step %d is repeated when the run is resumed", step)
            return
        values.elapsed_seconds = time.monotonic() - begun
        logging.info("%s", validation_line(values))
        self._refuse_missing_metric(values)
        if self._best and self._history.is_better(values, self._best):
            self._best.keep(checkpoint, values)
        context.line.tell(values)
        self._history.add(values, passed)
        self._last = passed
        context.paused_seconds += time.monotonic() - begun

    def _refuse_missing_metric(self, values: StepValues) -> None:
        """Raises `RunError` if the data do not give the metric that chooses the best checkpoint."""
        if self._best and self._best.metric not in (found := _row_of(values)):
            raise RunError(
                f"--best_metric={self._best.metric}: the validation data do not give this metric. Give one of "
                f"{', '.join(found)}, and start again to go on from step {values.step}."
            )

    def _is_out_of_patience(self) -> bool:
        """Whether the best validation lies `patience` validations back; then says so in the run's outcome."""
        best = self._best
        if best is None or best.patience is None:
            return False
        since, row = self._history.since_best(best)
        if since < best.patience:
            return False
        of = f"; the best is {row[best.metric]:.4f}, of step {row['step']}" if row else ""
        self.context.ending = f"no better {best.metric} in {since} validations (--patience={best.patience}){of}"
        return True


class _Curves:
    """Writes the figures of training and of validations under the same tags, which TensorBoard shows in one chart."""

    def __init__(self, context: Context, folder: str) -> None:
        self._training, self._validation = (EventFile(storage.join(folder, name)) for name in run_dir.CURVES)
        context.line.listen(self._write, validations=True)

    def _write(self, values: StepValues) -> None:
        file = self._validation if values.is_validation else self._training
        file.add_scalars(_row_of(values), values.step)

    def close(self) -> None:
        """Closes both files."""
        self._training.close()
        self._validation.close()


def _row_of(values: StepValues) -> dict[str, float]:
    return ({} if values.loss is None else {"loss": values.loss}) | values.figures


_UNDEFINED = -math.inf


def _rank(value: float | None, best: Best) -> float:
    """A number that is higher for a better value."""
    if value is None or not math.isfinite(value):
        return _UNDEFINED
    return value if best.higher_is_better else -value


class History:
    """The validations of a run, in `validation.json`.

    Attributes:
      rows: the figures of each validation with its `step`, in the order of the steps.
      pending: the step of the validation that has begun; None for none.
      pending_passed: the number of steps or epochs that have passed at that step.
    """

    def __init__(self, folder: str) -> None:
        self._path = storage.join(folder, NAME)
        self.rows: list[dict[str, float | None]] = []
        self._passed: list[int] = []
        self.pending: int | None = None
        self.pending_passed = 0

    @property
    def last_step(self) -> int:
        """The step of the last validation; 0 before the first."""
        return int(self.rows[-1]["step"] or 0) if self.rows else 0

    @property
    def passed(self) -> int:
        """The number of steps or epochs that had passed at the last validation."""
        return self._passed[-1] if self._passed else 0

    def read(self, step: int) -> None:
        """Reads the file of a run that resumes at `step`; what came after that step is forgotten.

        Raises:
          RunError: the file is damaged.
        """
        try:
            told = json_text.parse(storage.read_text(self._path))
            self.rows = [dict(row) for row in told["validations"] if row["step"] <= step]
            self._passed, begun = [int(count) for count in told["passed"]][: len(self.rows)], told["begun"]
            if begun is not None:
                self.pending, self.pending_passed = int(begun["step"]), int(begun["passed"])
        except storage.NotFoundError:
            return
        except (ValueError, TypeError, KeyError) as error:
            raise RunError(
                f"{self._path} is damaged ({error}). Restore it from a copy, or delete it: "
                "then earlier validations no longer count."
            ) from error

    def is_better(self, values: StepValues, best: Best) -> bool:
        """Whether these values are better than those of all validations so far."""
        value, (_, row) = _row_of(values).get(best.metric), self.since_best(best)
        return _rank(value, best) > _rank(row.get(best.metric), best)

    def since_best(self, best: Best) -> tuple[int, Mapping[str, Any]]:
        """The number of validations after the best one (after the start, if none is defined), and its row (or {}).

        Validations that did not compute this metric do not count.
        """
        rows = [row for row in self.rows if best.metric in row]
        ranks = [_rank(row[best.metric], best) for row in rows]
        highest = max(ranks, default=_UNDEFINED)
        if highest == _UNDEFINED:
            return len(ranks), {}
        place = ranks.index(highest)
        return len(ranks) - place - 1, rows[place]

    def begin(self, step: int, passed: int) -> None:
        """Notes that a validation begins."""
        self.pending, self.pending_passed = step, passed
        self._write()

    def add(self, values: StepValues, passed: int) -> None:
        """Notes the figures of the validation that has begun."""
        finite = {name: value if math.isfinite(value) else None for name, value in _row_of(values).items()}
        self.rows.append({"step": values.step, **finite})
        self._passed.append(passed)
        self.pending = None
        self._write()

    def _write(self) -> None:
        begun = None if self.pending is None else {"step": self.pending, "passed": self.pending_passed}
        told: Mapping[str, Any] = {"begun": begun, "passed": self._passed, "validations": self.rows}
        with storage.write_atomic(self._path, "w") as file:
            json.dump(told, file, indent=1)
