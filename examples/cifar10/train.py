"""Trains on CIFAR-10: `python -m examples.cifar10.train --help` lists the flags."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from examples.cifar10.config import TrainConfig
from examples.cifar10.data import DataSet, prepare
from examples.cifar10.modeler import CifarModeler
from yt8m import runner
from yt8m.command_line import flags, program
from yt8m.command_line.program import run_main
from yt8m.config.run_options import CheckpointConfig
from yt8m.runner import Outcome, RunnerConfig, StepValues

STEPS, GENERATED_STEPS = 100_000, 250


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program on `argv`, by default this process' own; returns the exit status."""
    return run_main("train.py", _run, argv)


def train(config: TrainConfig) -> Outcome:
    """Trains to the last step, resuming from the newest checkpoint in `train_dir`."""
    data = prepare(config)
    inputter = data.training(config.batch_size, config.seed)
    return runner.build(_runner_config(config, data), inputter, CifarModeler()).run()


def last_step(config: TrainConfig, data: DataSet) -> int:
    """The last step of a run if `max_steps` is not set."""
    return config.max_steps or (GENERATED_STEPS if data.is_generated else STEPS)


def format_line(values: StepValues, batch_size: int) -> str:
    """`step N, loss = L (X examples/sec; S sec/batch)`, without values that are missing; each tower has a batch."""
    line = f"step {values.step}"
    if values.loss is not None:
        line += f", loss = {values.loss:.2f}"
    speed = values.examples_per_second
    if speed:
        line += f" ({speed:.1f} examples/sec; {batch_size / speed:.3f} sec/batch)"
    return line


def _runner_config(config: TrainConfig, data: DataSet) -> RunnerConfig:
    return RunnerConfig(
        mode="train",
        model_dir=config.train_dir,
        batch_size_per_gpu=config.batch_size,
        gpu_count=config.num_gpus,
        log_every_n_iter=config.log_every_n_steps,
        save_summary_steps=config.save_summary_steps,
        max_steps=last_step(config, data),
        seed=config.seed,
        optimizer=config.optimizer(),
        checkpoints=CheckpointConfig(save_checkpoint_steps=config.save_checkpoint_steps),
        log_device_placement=config.log_device_placement,
        exact_resume=config.exact_resume,
        split_batch=False,
        signature={"workload": "cifar10"},
        format_line=lambda values: format_line(values, config.batch_size),
    )


def _run(words: list[str]) -> int:
    config = flags.read(TrainConfig, "train.py", "Trains on CIFAR-10, or on the generated set.", words)
    program.set_up_log()
    return train(config).exit_code


if __name__ == "__main__":
    sys.exit(main())
