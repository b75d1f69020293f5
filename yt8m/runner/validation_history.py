"""The file `validation.json` of a run: the metrics of its validations, which show the best checkpoint.

The file is written before the checkpoint of a validation is saved, and again after the validation. So a run that was
killed during a validation first repeats it, and then validates at the same steps as a run that was never killed.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from absl import logging

from yt8m import storage
from yt8m.errors import RunError
from yt8m.runner.lines import StepValues

NAME = "validation.json"


class Best(NamedTuple):
    """How the best checkpoint is chosen and kept.

    Attributes:
      metric: the name of the deciding metric, or `loss`.
      higher_is_better: whether a higher value of the metric is better.
      keep: called with the path and the values of each checkpoint that is better than all before it.
      checkpoint_of: returns the path of the checkpoint of an earlier validation at this step, or None if it is gone.
      patience: training ends after this number of validations without a better one; None for no limit.
    """

    metric: str
    higher_is_better: bool
    keep: Callable[[str, StepValues], None]
    checkpoint_of: Callable[[int], str | None]
    patience: int | None = None


class History:
    """The validations of a run.

    A new validation is compared only with earlier ones on the same data that computed the metric of `best`.

    Args:
      folder: the run's folder.
      best: how the best checkpoint is chosen; None if none is chosen.
      data: describes the validation data: their `pattern` and `max_videos`, for messages, and a `fingerprint` of their
        content; None if they are not known.

    Attributes:
      rows: {"step": step, name of a metric: value, ...} of each validation, in the order of the steps.
      pending: the step of a validation that has begun and not ended; None if there is none.
      pending_epochs: the number of completed epochs at that step, by the number of its newest shard.
    """

    def __init__(self, folder: str, best: Best | None = None, data: Mapping[str, Any] | None = None) -> None:
        self._path, self._best, self._data = storage.join(folder, NAME), best, data
        self.rows: list[dict[str, float | None]] = []
        self._epochs: list[int] = []
        self._first_compared = 0  # index into `rows`; earlier rows no longer count for the best one
        self.pending: int | None = None
        self.pending_epochs = 0

    @property
    def last_step(self) -> int:
        """The step of the last validation; 0 before the first validation."""
        return int(self.rows[-1]["step"] or 0) if self.rows else 0

    @property
    def forgotten_steps(self) -> set[int]:
        """The steps of the validations that no longer count for the best one."""
        return {int(row["step"] or 0) for row in self.rows[: self._first_compared]}

    @property
    def last_epochs(self) -> int:
        """The number of completed epochs at the last validation, by the number of its newest shard."""
        return self._epochs[-1] if self._epochs else 0

    def read(self, step: int) -> None:
        """Reads the file of a run that resumes at `step`, and drops the validations after that step.

        If the validation data or the metric have changed, decides which of the earlier validations still count.

        Raises:
          RunError: the file is damaged.
        """
        try:
            saved = storage.read_json(self._path)
            self.rows = [dict(row) for row in saved["validations"] if row["step"] <= step]
            self._epochs, begun = [int(count) for count in saved["epochs"]][: len(self.rows)], saved["begun"]
            self._first_compared = min(int(saved["first_compared"]), len(self.rows))
            former_data, former_metric = saved["data"], saved["metric"]
            if begun is not None:
                self.pending, self.pending_epochs = int(begun["step"]), int(begun["epochs"])
        except storage.NotFoundError:
            return
        except (ValueError, TypeError, KeyError) as error:
            raise RunError(
                f"{self._path} is damaged ({error}). Restore it from a copy, or delete it: "
                "then earlier validations no longer count."
            ) from error
        self._compare_starts(former_data, former_metric)

    def is_better(self, values: StepValues) -> bool:
        """Whether these values are better than those of all earlier validations that count."""
        return self._best is not None and self._rank(row_of(values)) > self._rank(self.since_best()[1])

    def since_best(self) -> tuple[int, Mapping[str, Any]]:
        """(the number of validations after the best one, the row of the best one), among the validations that count.

        If none of them has a finite value, the result is (their number, {}).
        """
        metric = self._best.metric if self._best else None
        rows = [row for row in self.rows[self._first_compared :] if metric in row]
        ranks = list(map(self._rank, rows))
        highest = max(ranks, default=_UNDEFINED)
        if highest == _UNDEFINED:
            return len(ranks), {}
        best = ranks.index(highest)
        return len(ranks) - best - 1, rows[best]

    def begin(self, step: int, epochs: int) -> None:
        """Records that a validation begins at `step`, after this number of completed epochs."""
        self.pending, self.pending_epochs = step, epochs
        self._write()

    def add(self, values: StepValues, epochs: int) -> None:
        """Adds the values of the validation that has begun, after this number of completed epochs."""
        finite = {name: value if math.isfinite(value) else None for name, value in row_of(values).items()}
        self.rows.append({"step": values.step, **finite})
        self._epochs.append(epochs)
        self.pending = None
        self._write()

    def _rank(self, row: Mapping[str, float | None]) -> float:
        """A number that is higher for a better row; -inf if the row has no finite value."""
        assert self._best is not None
        value = row.get(self._best.metric)
        if value is None or not math.isfinite(value):
            return _UNDEFINED
        return value if self._best.higher_is_better else -value

    def _compare_starts(self, data: Mapping[str, Any] | None, metric: str | None) -> None:
        """Drops earlier validations from the comparison if data or metric have changed; logs why and saves that.

        Args:
          data: the validation data of the previous start of the run.
          metric: the metric of the previous start of the run.
        """
        number = len(self.rows[self._first_compared :])
        if number and data and self._data and data["fingerprint"] != self._data["fingerprint"]:
            former, now = _flags(data), _flags(self._data)
            self._forget(
                f"the files of {now} changed" if former == now else f"they validated on {former}, not on {now}"
            )
        elif number and self._best and metric not in (None, self._best.metric):
            self._choose_again(f"--best_metric is now {self._best.metric}, and was {metric}", self._best)
        else:
            return
        self._write()

    def _choose_again(self, why: str, best: Best) -> None:
        """Keeps the checkpoint that is best by the new metric; drops all validations if that checkpoint is gone."""
        row = self.since_best()[1]
        checkpoint = best.checkpoint_of(row["step"]) if row else None
        if checkpoint is not None:
            logging.info("%s: the best of the earlier validations is chosen again", why)
            best.keep(checkpoint, _values_of(row))
        elif row:
            self._forget(f"{why}, and the checkpoint that is best by it, of step {row['step']}, is gone")
        else:
            self._forget(f"{why}, and they did not compute it")

    def _forget(self, why: str) -> None:
        number, self._first_compared = len(self.rows) - self._first_compared, len(self.rows)
        logging.info("the earlier validations (%d) no longer count for best/ and --patience: %s", number, why)

    def _write(self) -> None:
        begun = None if self.pending is None else {"step": self.pending, "epochs": self.pending_epochs}
        history: Mapping[str, Any] = {
            "begun": begun,
            "metric": self._best.metric if self._best else None,
            "data": self._data,
            "first_compared": self._first_compared,
            "epochs": self._epochs,
            "validations": self.rows,
        }
        storage.write(self._path, json.dumps(history, indent=1))


_UNDEFINED = -math.inf


def forgotten_in(folder: str) -> set[int]:
    """`History.forgotten_steps` of a run; empty if it has no history.

    Raises:
      RunError: the file is damaged.
    """
    history = History(folder)
    history.read(sys.maxsize)
    return history.forgotten_steps


def row_of(values: StepValues) -> dict[str, float]:
    """{name: value} of the loss and the metrics."""
    return ({} if values.loss is None else {"loss": values.loss}) | values.figures


def _values_of(row: Mapping[str, Any]) -> StepValues:
    figures = {name: value for name, value in row.items() if name != "step" and value is not None}
    return StepValues(int(row["step"]), loss=figures.pop("loss", None), figures=figures, is_validation=True)


def _flags(data: Mapping[str, Any]) -> str:
    limit = f" --eval_max_videos={data['max_videos']}" if data["max_videos"] else ""
    return f"--eval_data_pattern={data['pattern']}{limit}"
