"""What `yt8m train --json` prints at the end of a training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from yt8m import runner, storage
from yt8m.config import run_dir
from yt8m.config.train_config import TrainConfig
from yt8m.eval_util import metrics
from yt8m.runs.opened_run import RunFiles

# The names that figures of the choice have in other places: `map` means the published mAP there.
_NAMES_OF_CHOICE = {"map": "full_map", "map_error": "full_map_error"}


def of_training(
    config: TrainConfig, outcome: runner.Outcome, meant: int, test: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The figures of the weights that the run means, the last lines of metrics.jsonl, and the figures of the choice.

    There is None for what there is not.

    Args:
      meant: the step of the weights that the run means, of which an export is made and which other commands use.
      test: the evaluation of the choice on the split test, see `quoting.evaluate_test`.
    """
    files = RunFiles(config.train_dir)
    lines = {"figures": files.training_lines, "validation": files.validation_lines}
    return {
        "train_dir": config.train_dir,
        "status": str(outcome.status),
        "step": outcome.global_step,
        "model": config.model.model,
        "meant": {"step": meant, "validation": _validation_of(config, files, meant) or None},
        "test": test,
        **{name: dict(rows[-1]) if rows else None for name, rows in lines.items()},
        "choice": {_NAMES_OF_CHOICE.get(name, name): value for name, value in config.search.quoted.items()} or None,
    }


def _validation_of(config: TrainConfig, files: RunFiles, step: int) -> dict[str, float | None]:
    """{key as in report.json: figure} of the validation of a step; empty if it was not validated."""
    path = storage.join(config.train_dir, run_dir.BEST_FOLDER, run_dir.BEST_NOTE)
    notes = [storage.read_json(path)] if config.checkpoint == "best" and storage.exists(path) else []
    figures = [note["figures"] for note in notes if note["step"] == step and "figures" in note]
    figures += [row for row in reversed(files.validation_lines) if row["step"] == step]
    computed = (*metrics.load(), metrics.find(config.validation.best_metric))
    keys = {metric.name: metric.key for metric in computed}
    return {keys[name]: value for name, value in (figures or [{}])[0].items() if name in keys}
