"""A training in this process, by the flags of train.py, and what comes of it."""

from __future__ import annotations

import dataclasses
import os
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from yt8m import options, registry, runner, storage
from yt8m.command_line import flag_parsing, flags, typed_names
from yt8m.deploy import cluster
from yt8m.errors import RunError, UsageError
from yt8m.eval_util.named_figures import NamedFigures
from yt8m.python_api import weights_of_classes
from yt8m.python_api.call_scope import call_scope
from yt8m.python_api.results import frame_of, html_of
from yt8m.runs.opened_run import RunFiles
from yt8m.training import training_run

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, repr=False)
class FittedRun:
    """The result of a training that has finished, or that a signal has stopped; its last step is saved.

    Attributes:
      folder: the absolute path of the run's folder, which you can pass to `load`.
      status: `finished`, `out_of_data` (all epochs were read), or `stopped` (by Ctrl-C or SIGTERM).
      step: the last training step.
      message: how the training ended, in words.
      figures: the last row of metrics.jsonl about a training step, which has no `mode`: `step`, `loss`, `GAP` and other
        metrics of one batch; empty if there is no such row. The keys of report.json, such as `gap`, find them too.
      validations: if `eval_data_pattern` was given, the metrics of each validation with its `step`, including the
        validations of earlier starts of the run. `load` with `checkpoint="best"` loads the best one by `best_metric`.
    """

    folder: str
    status: str
    step: int
    message: str
    figures: Mapping[str, float]
    validations: tuple[Mapping[str, float | None], ...] = ()

    def to_frame(self) -> pandas.DataFrame:
        """The lines of metrics.jsonl, of training steps and of validations, as a DataFrame.

        Returns:
          A row for each line.

        Raises:
          UsageError: pandas is not installed.
        """
        return frame_of(RunFiles(self.folder).lines)

    def __fspath__(self) -> str:
        return self.folder

    def _latest(self) -> NamedFigures:
        return NamedFigures(self.validations[-1] if self.validations else self.figures)

    def __repr__(self) -> str:
        return f"<run {self.folder}: {self.status} at step {self.step}; {self._latest().short() or 'no figures'}>"

    def _repr_html_(self) -> str:
        return html_of({"status": self.status, "step": self.step, **self._latest().spelled()}, self.folder)


def train_in_process(flag_values: Mapping[str, Any]) -> FittedRun:
    """Trains as `fit` does, but leaves the log as the process has it."""
    cluster_config = cluster.from_environment()
    if cluster_config is not None and cluster_config.is_distributed:
        raise UsageError(
            "TF_CONFIG or CLUSTER_SPEC makes this process part of a cluster: use `yt8m train`, or unset the variable."
        )
    with call_scope(), typed_names.said_as_typed():
        with weights_of_classes.as_table(flag_values) as values:
            config, data = flags.training(command_line(values))
        if values.get("class_weights") is not flag_values.get("class_weights"):  # the run keeps the weights themselves
            config = dataclasses.replace(config, model=dataclasses.replace(config.model, class_weights=""))
        if not config.data.data_pattern:
            raise UsageError("no data are named: give train_data_pattern, or data for short.")
        config, outcome = training_run.train(config, data)
    if outcome.status is runner.Status.FAILED:
        raise RunError(outcome.message) from outcome.error
    validations = tuple(map(NamedFigures, outcome.results.get("validations", ())))
    lines = RunFiles(config.train_dir).training_lines
    figures = NamedFigures(lines[-1] if lines else {})
    folder = storage.absolute(config.train_dir)  # `load` finds it after a change of the current folder too
    return FittedRun(folder, str(outcome.status), outcome.global_step, outcome.message, figures, validations)


def command_line(flag_values: Mapping[str, Any]) -> list[str]:
    """The words of a command line with these flags."""
    for name in flag_values:
        if name in flag_parsing.HELP:
            raise UsageError(f"{name} is not an option: see help() of this function, or --help of its command.")
        if name == "json":
            raise UsageError("json is a flag of the command line: what this function returns has the figures.")
    return [f"--{name}={_flag_text(name, value)}" for name, value in flag_values.items() if value is not None]


def _flag_text(name: str, value: Any) -> str:
    """The value of the flag `name` as it is written on the command line."""
    items = list(value) if isinstance(value, list | tuple) else [value]
    items = [registry.name_of_class(item) if isinstance(item, type) else item for item in items]
    items = [str(os.fspath(item)) if isinstance(item, os.PathLike) else item for item in items]
    items = [item.item() if isinstance(item, np.generic) else item for item in items]
    if not all(isinstance(part, str | bool | int | float) for part in items):
        raise UsageError(f"{name}={reprlib.repr(value)}: expected a text, a number, True or False, or a list of them.")
    return options.shown(items if isinstance(value, list | tuple) else items[0])
