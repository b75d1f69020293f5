"""One run of the tiny workload in a process of its own: `main('{"model_dir": ..., ...}')`.

Prints status, step and message as the last line and returns the outcome's code. Beside RunnerConfig's
fields: `data`, `epochs`, `noise`, `blocks`, `callbacks` (options by name), `checkpoints` (as a dict).
`shards`, a pattern, makes it a run on video records one by one, with `readers` and `buffer` of the shuffling.
"""

from __future__ import annotations

import importlib
import json
from typing import Any

from absl import logging
from runner.id_workload import READER, Ids
from tiny_workload import TinyInputter, TinyModeler

from yt8m import runner
from yt8m.config.run_options import CheckpointConfig
from yt8m.readers import BatchQueue


def warm_up() -> None:
    """Imports what a run needs. Nothing is built: the runtime would look for devices, and start threads."""
    for module in ("callbacks.steps", "callbacks.figures", "callbacks.progress", "hooks"):
        importlib.import_module(f"yt8m.runner.{module}")
    importlib.import_module("runner.tiny_hooks")
    importlib.import_module("tiny_replica")


def main(text: str) -> int:
    """Runs as the JSON object in `text` says."""
    logging.set_verbosity(logging.INFO)
    given = json.loads(text)
    inputter, modeler = _workload(given)
    callbacks = runner.CallbackConfig(options=given.pop("callbacks", {}))
    given["checkpoints"] = CheckpointConfig(**given.get("checkpoints", {}))
    config = runner.RunnerConfig(**{"signature": {"workload": "tiny"}, **given})
    outcome = runner.build(config, inputter, modeler, callbacks).run()
    print(json.dumps([outcome.status.value, outcome.global_step, outcome.message]), flush=True)
    return outcome.exit_code


def _workload(given: dict[str, Any]) -> tuple[Any, Any]:
    """Takes what describes it out of `given`."""
    data, epochs = given.pop("data"), given.pop("epochs", None)
    shards, readers, buffer = given.pop("shards", ""), given.pop("readers", 1), given.pop("buffer", 1)
    modeler = TinyModeler(given.pop("noise", 0.0), given.pop("blocks", False))
    if not shards:
        return TinyInputter(data, 8, epochs), modeler
    return BatchQueue(READER, shards, 1, epochs, True, buffer, readers), Ids()
