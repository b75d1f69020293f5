"""The file `validation.json` of a run: the metrics of all its validations, by which the best checkpoint is chosen.

The file is written before the checkpoint of a validation is saved, and again after the validation. So if a run is
killed during a validation, the resumed run repeats this validation first, and then validates at the same steps as a run
that was never killed.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from absl import logging

from yt8m import storage
from yt8m.errors import RunError
from yt8m.runner.lines import StepValues
from yt8m.storage import state_files

NAME = "validation.json"  # the name of the file in the run's folder


class Best(NamedTuple):
    """How the best checkpoint is chosen and kept.

    Attributes:
      checkpoint_of: returns the path of the checkpoint that was validated at a given step, or None if it was deleted.
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
      best: how the best checkpoint is chosen; None if none is chosen.
      data: describes the validation data: the values of --eval_data_pattern and --eval_max_videos, as `pattern` and
        `max_videos`, and a `fingerprint` of the content of the files; None if the data are not known.

    Attributes:
      rows: {"step": step, name of a metric: value, ...} of each validation, in the order of the steps. A value that
        was not finite is None.
      pending: the step of a validation that has begun and not ended; None if there is none.
      pending_epochs: the number of epochs completed at the step `pending`, if epochs are counted by the numbers of the
        shards that the run reads; else 0.
    """

    def __init__(self, folder: str, best: Best | None = None, data: Mapping[str, Any] | None = None) -> None:
        self._path, self._best, self._data = storage.join(folder, NAME), best, data
        self.rows: list[dict[str, float | None]] = []
        self._epochs: list[int] = []
        self._first_compared = 0  # index of a row; the rows before it are not compared with new validations any more
        self.pending: int | None = None
        self.pending_epochs = 0

    @property
    def last_step(self) -> int:
        """The step of the last validation; 0 before the first validation."""
        return int(self.rows[-1]["step"] or 0) if self.rows else 0

    @property
    def forgotten_steps(self) -> set[int]:
        """The steps of the validations that are no longer compared with new ones."""
        return {int(row["step"] or 0) for row in self.rows[: self._first_compared]}

    @property
    def last_epochs(self) -> int:
        """The number of epochs completed at the last validation, if they are counted by shard numbers; else 0."""
        return self._epochs[-1] if self._epochs else 0

    def read(self, step: int) -> None:
        """Reads the file of a resumed run, and drops the validations of later steps than the one where it resumes.

        If the validation data or the metric have changed, this also decides which of the earlier validations are still
        compared with new ones, logs that, and writes the file again. Without a file nothing happens.
        """
        try:
            saved = state_files.read(self._path)
            self.rows = [dict(row) for row in saved["validations"] if row["step"] <= step]
            self._epochs, begun = [int(count) for count in saved["epochs"]][: len(self.rows)], saved["begun"]
            self._first_compared = min(int(saved["first_compared"]), len(self.rows))
            former_data, former_metric = saved["data"], saved["metric"]
            if begun is not None:
                self.pending, self.pending_epochs = int(begun["step"]), int(begun["epochs"])
        except storage.NotFoundError:
            return
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise RunError(
                f"{self._path} is damaged ({error}). Restore it from a copy, or delete it: "
                "then earlier validations no longer count."
            ) from error
        self._adapt_to_changes(former_data, former_metric)

    def is_better(self, values: StepValues) -> bool:
        """Whether a validation is better than all earlier ones that are compared; False if no best one is chosen."""
        return self._best is not None and self._rank(row_of(values)) > self._rank(self.since_best()[1])

    def since_best(self) -> tuple[int, Mapping[str, Any]]:
        """Finds the best of the validations that are compared.

        Returns:
          (the number of validations after the best one; the row of the best one). If no validation has a finite value
          of the metric, (the number of validations; an empty row).
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
        """Writes into the file that a validation begins.

        Args:
          epochs: the number of epochs that are completed at this step; 0 if they are not counted by shard numbers.
        """
        self.pending, self.pending_epochs = step, epochs
        self._write()

    def add(self, values: StepValues, epochs: int) -> None:
        """Writes the values of the validation that has begun into the file, after those of earlier validations."""
        finite = {name: value if math.isfinite(value) else None for name, value in row_of(values).items()}
        self.rows.append({"step": values.step, **finite})
        self._epochs.append(epochs)
        self.pending = None
        self._write()

    def _rank(self, row: Mapping[str, float | None]) -> float:
        """A number that is higher for a better row; -inf if the row has no finite value of the metric."""
        assert self._best is not None
        value = row.get(self._best.metric)
        if value is None or not math.isfinite(value):
            return _UNDEFINED
        return value if self._best.higher_is_better else -value

    def _adapt_to_changes(self, former_data: Mapping[str, Any] | None, former_metric: str | None) -> None:
        """Adapts the comparison if the validation data or --best_metric differ from those of the run's previous start.

        If the data differ, the earlier validations are excluded from the comparison with new ones. If only the metric
        differs, the best of them is chosen again. Then this logs what is done and why, and writes the file.

        Args:
          former_data: describes the validation data of the previous start, as `data`; None if they were not known.
          former_metric: the metric of the previous start; None if no best checkpoint was chosen.
        """
        number = len(self.rows[self._first_compared :])
        if number and former_data and self._data and former_data["fingerprint"] != self._data["fingerprint"]:
            former, current = _format_flags(former_data), _format_flags(self._data)
            if former == current:
                self._forget(f"the files of {current} changed")
            else:
                self._forget(f"they validated on {former}, not on {current}")
        elif number and self._best and former_metric not in (None, self._best.metric):
            self._choose_again(f"--best_metric is now {self._best.metric}, and was {former_metric}", self._best)
        else:
            return
        self._write()

    def _choose_again(self, why: str, best: Best) -> None:
        """Keeps the checkpoint of an earlier validation that is best by the new metric.

        If it was deleted, or no earlier validation computed the metric, all are excluded from the comparison.
        """
        row = self.since_best()[1]
        checkpoint = best.checkpoint_of(row["step"]) if row else None
        if checkpoint is not None:
            logging.info("%s: the best of the earlier validations is chosen again", why)
            best.keep(checkpoint, _parse_row(row))
        elif row:
            self._forget(f"{why}, and the checkpoint that is best by it, of step {row['step']}, is gone")
        else:
            self._forget(f"{why}, and they did not compute it")

    def _forget(self, why: str) -> None:
        """Excludes all validations so far from the comparison with new ones, and logs why."""
        number, self._first_compared = len(self.rows) - self._first_compared, len(self.rows)
        logging.info("the earlier validations (%d) no longer count for best/ and --patience: %s", number, why)

    def _write(self) -> None:
        """Writes the file `validation.json`."""
        begun = None if self.pending is None else {"step": self.pending, "epochs": self.pending_epochs}
        history: Mapping[str, Any] = {
            "begun": begun,
            "metric": self._best.metric if self._best else None,
            "data": self._data,
            "first_compared": self._first_compared,
            "epochs": self._epochs,
            "validations": self.rows,
        }
        state_files.write(self._path, history)


_UNDEFINED = -math.inf  # the rank of a row without a finite value of the metric


def forgotten_in(folder: str) -> set[int]:
    """The steps of a run's validations that are no longer compared with new ones: their data or metric were others.

    Args:
      folder: the run's folder. A run without validations gives an empty set.
    """
    history = History(folder)
    history.read(sys.maxsize)
    return history.forgotten_steps


def row_of(values: StepValues) -> dict[str, float]:
    """{name: value} of the metrics of a validation, and of its loss, if it has one, under the name `loss`."""
    return ({} if values.loss is None else {"loss": values.loss}) | values.figures


def _parse_row(row: Mapping[str, Any]) -> StepValues:
    """The `StepValues` of the validation that a row of `History.rows` describes."""
    figures = {name: value for name, value in row.items() if name != "step" and value is not None}
    return StepValues(int(row["step"]), loss=figures.pop("loss", None), figures=figures, is_validation=True)


def _format_flags(data: Mapping[str, Any]) -> str:
    """The flags that select validation data, as on the command line; `data` as in `History`."""
    limit = f" --eval_max_videos={data['max_videos']}" if data["max_videos"] else ""
    return f"--eval_data_pattern={data['pattern']}{limit}"
