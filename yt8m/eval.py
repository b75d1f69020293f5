"""The program eval.py: from a command line to figures of a model."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from yt8m import program
from yt8m.config import flags
from yt8m.program import run_main


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the program on `argv`, by default this process' own; returns the exit status."""
    return run_main("eval.py", _run, argv)


def _run(words: list[str]) -> int:
    config = flags.eval_config(words)
    program.set_up_log()
    # Here, so that flag errors and --help come before the graph code is loaded.
    from yt8m.commands.team import evaluate_together

    return evaluate_together(config)


if __name__ == "__main__":
    sys.exit(main())
