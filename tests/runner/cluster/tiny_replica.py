"""One process as TF_CONFIG says: `main('{"model_dir": ..., "data": [...], ...}')`.

Trains the tiny workload; prints `step N` after every step and the outcome as the last line.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from tiny_workload import CLASSES, FEATURES, TinyInputter, TinyModeler

from yt8m import runner
from yt8m.command_line import program
from yt8m.config.run_options import CheckpointConfig
from yt8m.config.train_config import OptimizerConfig
from yt8m.deploy.cluster import from_environment
from yt8m.lazy import tf
from yt8m.runner.cluster import failures, replica_hooks
from yt8m.runner.cluster.servers import serve


class Files(TinyInputter):
    """Several files, in order."""

    def __init__(self, paths: Sequence[str], epochs: int | None) -> None:
        super().__init__(paths[0], 8, epochs, shuffle=0)
        self.paths = paths

    def files(self) -> Sequence[str]:
        return self.paths


class Steps(runner.Callback):
    """Prints the steps, one every `pause` seconds; ends the run when the file `stop` is there."""

    def __init__(self, context: runner.Context, stop: str, pause: float = 0.02) -> None:
        super().__init__(context)
        self.stop, self.pause = pathlib.Path(stop), pause

    def before_run(self, run_context: Any) -> tf.train.SessionRunArgs:
        return tf.train.SessionRunArgs(self.context.ops.examples)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        print(f"step {self.context.step} rows {run_values.results}", flush=True)
        time.sleep(self.pause)  # keeps the machine free for the processes that start
        time.sleep(float(os.environ.get("LAG", "0")))  # a slow machine
        if self.context.step == int(os.environ.get("TAMPER", "-1")):  # a faulty memory
            tf.global_variables("weights")[0].load(np.ones([FEATURES, CLASSES]), run_context.session)
        if self.context.step >= int(os.environ.get("FAIL_AT", sys.maxsize)):
            raise RuntimeError("the disk is broken.")
        if self.stop.exists():
            run_context.request_stop()

    def end(self, session: tf.Session) -> None:
        time.sleep(float(os.environ.get("LINGER", "0")))  # a process that is slow to end
        while "END_AT" in os.environ and not pathlib.Path(os.environ["END_AT"]).exists():
            time.sleep(0.1)


def run(text: str) -> int:
    failures.DEAD_SECONDS = float(os.environ.get("DEAD", failures.DEAD_SECONDS))
    replica_hooks.REMIND_SECONDS = float(os.environ.get("REMIND", replica_hooks.REMIND_SECONDS))
    cluster = from_environment()
    if cluster.role == "ps":
        serve(cluster, float(os.environ.get("GRACE", "3")), float(os.environ.get("STALL", "inf")))
    given = json.loads(text)
    modeler = TinyModeler()
    if "NO_MODEL" in os.environ:
        modeler.build = None  # the first call of it fails
    inputter = Files(given.pop("data"), given.pop("epochs", None))
    steps = {"stop": given.pop("stop"), "pause": given.pop("pause", 0.02)}
    callbacks = runner.CallbackConfig(options={"tiny_replica:Steps": steps})
    given["checkpoints"] = CheckpointConfig(**given.get("checkpoints", {}))
    given["optimizer"] = OptimizerConfig(**given.get("optimizer", {}))
    config = runner.RunnerConfig(cluster=cluster, **{"stall_timeout": 240.0, **given})
    outcome = runner.build(config, inputter, modeler, callbacks).run()
    print(json.dumps([outcome.status.value, outcome.global_step, outcome.message]), flush=True)
    return outcome.exit_code


def main(text: str) -> int:
    program.set_up_log()
    return program.run_main("tiny_replica.py", lambda _: run(text))
