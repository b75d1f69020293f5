"""One run of the tiny workload in a process of its own: `main('{"model_dir": ..., ...}')`.

Prints status, step and message as the last line and returns the outcome's code. Beside RunnerConfig's
fields: `data`, `epochs`, `noise`, `blocks`, `callbacks` (options by name), `checkpoints` (as a dict).
"""

from __future__ import annotations

import importlib
import json

from absl import logging
from tiny_workload import TinyInputter, TinyModeler

from yt8m import deploy, runner
from yt8m.config import CheckpointConfig
from yt8m.lazy import tf


def warm_up() -> None:
    """Imports what a run needs, by building the graph of one."""
    importlib.import_module("yt8m.runner.callbacks")
    config = runner.RunnerConfig(model_dir="unused")
    with tf.Graph().as_default():
        made = runner.build(config, TinyInputter("unused"), TinyModeler(0.1))
        made.replicate_graph(deploy.DeploymentConfig(1, clone_on_cpu=True))
        tf.train.Saver().export_meta_graph()


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
