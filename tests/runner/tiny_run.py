"""One run of the tiny workload in a process of its own: `main('{"model_dir": ..., ...}')`.

Prints status, step and message as the last line and returns the outcome's code. Beside RunnerConfig's
fields: `data`, `epochs`, `noise`, `blocks`, `callbacks` (options by name), `checkpoints` (as a dict).
"""

from __future__ import annotations

import importlib
import json

from absl import logging
from tiny_workload import TinyInputter, TinyModeler

from yt8m import runner
from yt8m.config import CheckpointConfig


def warm_up() -> None:
    """Imports what a run needs. Nothing is built: the runtime would look for devices, and start threads."""
    for module in (
        "callbacks",
        "callbacks.train_summary",
        "callbacks.progress",
        "hooks",
        "epochs",
        "skipped",
    ):
        importlib.import_module(f"yt8m.runner.{module}")
    importlib.import_module("tiny_hooks")


def main(text: str) -> int:
    """Runs as the JSON object in `text` says."""
    logging.set_verbosity(logging.INFO)
    given = json.loads(text)
    inputter = TinyInputter(given.pop("data"), 8, given.pop("epochs", None))
    modeler = TinyModeler(given.pop("noise", 0.0), given.pop("blocks", False))
    callbacks = runner.CallbackConfig(options=given.pop("callbacks", {}))
    given["checkpoints"] = CheckpointConfig(**given.get("checkpoints", {}))
    config = runner.RunnerConfig(**{"batch_size_per_gpu": 8, "signature": {"workload": "tiny"}, **given})
    outcome = runner.build(config, inputter, modeler, callbacks).run()
    print(json.dumps([outcome.status.value, outcome.global_step, outcome.message]), flush=True)
    return outcome.exit_code
