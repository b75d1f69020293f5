"""What `yt8m train --json` prints at the end of a training."""

from __future__ import annotations

from typing import Any

from yt8m import runner
from yt8m.config.train_config import TrainConfig
from yt8m.runs.opened_run import RunFiles


def of_training(config: TrainConfig, outcome: runner.Outcome) -> dict[str, Any]:
    """The last lines of metrics.jsonl, and the figures of the choice of the model; None for what there is not."""
    files = RunFiles(config.train_dir)
    lines = {"figures": files.training_lines, "validation": files.validation_lines}
    return {
        "train_dir": config.train_dir,
        "status": str(outcome.status),
        "step": outcome.global_step,
        "model": config.model.model,
        **{name: dict(rows[-1]) if rows else None for name, rows in lines.items()},
        "choice": dict(config.search.quoted) or None,
    }
