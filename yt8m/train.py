"""The program train.py: from a command line to a trained model."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from yt8m import flags, log
from yt8m.cli import run_main
from yt8m.config import TrainConfig
from yt8m.errors import RunError


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program on `argv`, by default this process' own; returns the exit status."""
    return run_main("train.py", _run, argv)


def train(config: TrainConfig) -> int:
    """Trains as `config` says. Returns the exit status."""
    raise RunError("this part is not wired up yet")


def _run(words: list[str]) -> int:
    config = flags.train_config(words)
    log.set_up()
    return train(config)


if __name__ == "__main__":
    sys.exit(main())
