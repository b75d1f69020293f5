"""Probabilities for the test file: `python -m examples.cifar10.infer --help` lists the flags."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import IO

import numpy as np

from examples.cifar10.config import InferenceConfig, TrainConfig
from examples.cifar10.data import prepare
from examples.cifar10.modeler import CifarModeler
from examples.cifar10.records import NUM_CLASSES
from yt8m import runner, storage
from yt8m.command_line import flags, program
from yt8m.command_line.program import run_main
from yt8m.errors import RunError
from yt8m.runner import CallbackConfig, RunnerConfig


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program on `argv`, by default this process' own; returns the exit status."""
    return run_main("infer.py", _run, argv)


def infer(config: InferenceConfig) -> None:
    """Writes `index,class,p0,...,p9` for each record of the test file, in order, all or nothing.

    Raises:
      RunError: the run did not get through the file.
    """
    run = RunnerConfig(
        mode="infer",
        model_dir=config.train_dir,
        batch_size_per_gpu=config.batch_size,
        log_every_n_iter=config.log_every_n_steps,
        optimizer=TrainConfig().optimizer(),
    )
    inputter = prepare(config).test(config.batch_size)
    with storage.write_atomic(config.output_file, "w") as file:
        writer = {"infer_writer": {"consumer": _Rows(file).add}}
        outcome = runner.build(run, inputter, CifarModeler(), CallbackConfig(options=writer)).run()
        if outcome.exit_code:
            raise RunError(f"no predictions were written: {outcome.message}")


class _Rows:
    """Writes probabilities as lines."""

    def __init__(self, file: IO[str]) -> None:
        self._file, self._index = file, 0
        names = ",".join(f"p{number}" for number in range(NUM_CLASSES))
        file.write(f"index,class,{names}\n")

    def add(self, reports: Mapping[str, np.ndarray]) -> None:
        """Adds one line for each example of a step."""
        for row in reports["probabilities"]:
            shares = ",".join(f"{value:.6f}" for value in row)
            self._file.write(f"{self._index},{int(row.argmax())},{shares}\n")
            self._index += 1


def _run(words: list[str]) -> int:
    purpose = "Writes the probabilities of the ten classes for the test file."
    config = flags.read(InferenceConfig, "infer.py", purpose, words)
    program.set_up_log()
    infer(config)
    return 0


if __name__ == "__main__":
    sys.exit(main())
