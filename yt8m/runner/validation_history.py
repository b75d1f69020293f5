"""The validations of a run, in `validation.json` in its folder: their figures, and which of them is the best.

The file is written before the checkpoint of a validation is saved, and again when the figures are known. So a run that
was killed in the middle of a validation repeats that one before anything else, and validates at the same steps as a run
that was never killed.
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
      metric: the name of the figure that decides; `loss` is one too.
      higher_is_better: whether a higher value is better.
      keep: called with the path of each checkpoint that is better than all before, and its figures.
      checkpoint_of: called with the step of an earlier validation; gives the path of its checkpoint, or None if that
        is gone.
      patience: training ends after this number of validations without a better one; None for no such end.
    """

    metric: str
    higher_is_better: bool
    keep: Callable[[str, StepValues], None]
    checkpoint_of: Callable[[int], str | None]
    patience: int | None = None


class History:
    """The validations of a run.

    Validations on other data than those of this start are not compared with new ones. Neither are validations that did
    not compute the metric of `best`.

    Args:
      folder: the run's folder.
      best: how the best checkpoint is chosen; None if none is.
      data: describes the validation data: their `pattern` and `max_videos`, for messages, and a `fingerprint`, which
        other data do not have; None if that is not known.

    Attributes:
      rows: the figures of each validation with its `step`, in the order of the steps.
      pending: the step of the validation that has begun; None if none has.
      pending_epochs: the number of epochs that had passed at that step, as far as the shards show it.
    """

    def __init__(self, folder: str, best: Best | None = None, data: Mapping[str, Any] | None = None) -> None:
        self._path, self._best, self._data = storage.join(folder, NAME), best, data
        self.rows: list[dict[str, float | None]] = []
        self._epochs: list[int] = []
        self._first_compared = 0  # index into `rows`: earlier rows no longer count for the best one
        self.pending: int | None = None
        self.pending_epochs = 0

    @property
    def last_step(self) -> int:
        """The step of the last validation; 0 before the first."""
        return int(self.rows[-1]["step"] or 0) if self.rows else 0

    @property
    def forgotten_steps(self) -> set[int]:
        """The steps of the validations that no longer count for the best one."""
        return {int(row["step"] or 0) for row in self.rows[: self._first_compared]}

    @property
    def last_epochs(self) -> int:
        """The number of epochs that had passed at the last validation, as far as the shards show it."""
        return self._epochs[-1] if self._epochs else 0

    def read(self, step: int) -> None:
        """Reads the file of a run that resumes at `step`; what came after that step is forgotten.

        If this start has other validation data or another metric than the one before, it is decided here which of the
        earlier validations still count.

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
        """Whether these values are better than those of all validations that they are compared with."""
        return self._best is not None and self._rank(row_of(values)) > self._rank(self.since_best()[1])

    def since_best(self) -> tuple[int, Mapping[str, Any]]:
        """The number of validations after the best one, and the row of the best one.

        If no validation has a value, these are the number of all validations and {}. Only validations with these data
        and this metric count.
        """
        metric = self._best.metric if self._best else None
        rows = [row for row in self.rows[self._first_compared :] if metric in row]
        ranks = list(map(self._rank, rows))
        highest = max(ranks, default=_UNDEFINED)
        if highest == _UNDEFINED:
            return len(ranks), {}
        place = ranks.index(highest)
        return len(ranks) - place - 1, rows[place]

    def begin(self, step: int, epochs: int) -> None:
        """Notes that a validation begins."""
        self.pending, self.pending_epochs = step, epochs
        self._write()

    def add(self, values: StepValues, epochs: int) -> None:
        """Notes the figures of the validation that has begun."""
        finite = {name: value if math.isfinite(value) else None for name, value in row_of(values).items()}
        self.rows.append({"step": values.step, **finite})
        self._epochs.append(epochs)
        self.pending = None
        self._write()

    def _rank(self, row: Mapping[str, float | None]) -> float:
        """A number that is higher for a better row."""
        assert self._best is not None
        value = row.get(self._best.metric)
        if value is None or not math.isfinite(value):
            return _UNDEFINED
        return value if self._best.higher_is_better else -value

    def _compare_starts(self, data: Mapping[str, Any] | None, metric: str | None) -> None:
        """Forgets the validations that cannot be compared with those of this start, and logs why; then notes that.

        Args:
          data: the validation data of the start before.
          metric: the metric of the start before.
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
        """Keeps the best of the earlier validations by the new metric; forgets all if its checkpoint is gone."""
        row = self.since_best()[1]
        checkpoint = best.checkpoint_of(row["step"]) if row else None
        if checkpoint is not None:
            logging.info("%s: earlier validations are compared by the new one", why)
            best.keep(checkpoint, _values_of(row))
        elif row:
            self._forget(f"{why}, and the checkpoint of step {row['step']}, which is the best by it, is gone")
        else:
            self._forget(f"{why}, which they did not compute")

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
