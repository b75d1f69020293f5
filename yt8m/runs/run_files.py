"""What a run has written into its folder: how tables and pages of runs read it, whatever is missing there."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import Any

from yt8m import storage
from yt8m.config import run_dir
from yt8m.config.run_dir import SavedRun
from yt8m.runner import metric_files, validation_history

Lines = Sequence[Mapping[str, Any]]


class RunFiles:
    """The files of a run, each of which is read at its first use. A property raises RunError if its file is damaged.

    Args:
      folder: the folder of the run.
      names: names of the files in the folder, if they are known; else the folder is listed.
    """

    def __init__(self, folder: str, names: Collection[str] | None = None) -> None:
        self.folder = folder
        self.names = storage.listdir(folder) if names is None else names

    @cached_property
    def saved(self) -> SavedRun | None:
        """The config of the training; None if there is none."""
        return run_dir.read(self.folder)

    @cached_property
    def lines(self) -> Lines:
        """The lines of metrics.jsonl. A line that was cut off by a kill is left out."""
        return list(metric_files.rows(self.folder)) if metric_files.METRICS in self.names else []

    @property
    def training_lines(self) -> Lines:
        """The lines of training batches, or, in the folder of an evaluation, of evaluated checkpoints."""
        return [line for line in self.lines if "mode" not in line]

    @property
    def validation_lines(self) -> Lines:
        """The lines of the validations of a training."""
        return [line for line in self.lines if line.get("mode") == metric_files.VALIDATE]

    @cached_property
    def forgotten(self) -> Collection[int]:
        """Steps of the validations that no longer count for the best one: they may have been on easier data."""
        return validation_history.forgotten_in(self.folder) if validation_history.NAME in self.names else ()
