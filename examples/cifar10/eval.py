"""The accuracy on the test file: `python -m examples.cifar10.eval --help` lists the flags."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from examples.cifar10.config import EvalConfig, TrainConfig
from examples.cifar10.data import prepare
from examples.cifar10.modeler import CifarModeler
from yt8m import runner
from yt8m.command_line import flags, program
from yt8m.command_line.program import run_main
from yt8m.runner import Outcome, RunnerConfig


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program on `argv`, by default this process' own; returns the exit status."""
    return run_main("eval.py", _run, argv)


def evaluate(config: EvalConfig) -> Outcome:
    """Evaluates the newest checkpoint, with the moving averages of its weights if it has them."""
    run = RunnerConfig(
        mode="eval",
        model_dir=config.train_dir,
        batch_size_per_gpu=config.batch_size,
        gpu_count=config.num_gpus,
        log_every_n_iter=config.log_every_n_steps,
        optimizer=TrainConfig().optimizer(),
    )
    return runner.build(run, prepare(config).test(config.batch_size), CifarModeler()).run()


def _run(words: list[str]) -> int:
    purpose = "Prints the accuracy of the newest checkpoint on the test file."
    config = flags.read(EvalConfig, "eval.py", purpose, words)
    program.set_up_log()
    outcome = evaluate(config)
    if outcome.exit_code == 0:
        print(f"accuracy: {outcome.results['figures']['accuracy']:.4f}")
    return outcome.exit_code


if __name__ == "__main__":
    sys.exit(main())
