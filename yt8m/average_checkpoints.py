"""The command `yt8m average-checkpoints`."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from yt8m import flags, log
from yt8m.config_export import AverageConfig
from yt8m.program import run_main

_PURPOSE = "Averages checkpoints of a run."


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command on `argv`, by default this process' own; returns the exit status."""
    return run_main("yt8m average-checkpoints", _run, argv)


def _run(words: list[str]) -> int:
    config = flags.read(AverageConfig, "yt8m average-checkpoints", _PURPOSE, words)
    log.set_up()
    # Here, so that flag errors and --help come before the graph code is loaded.
    from yt8m.jobs.averaging import average

    return average(config)


if __name__ == "__main__":
    sys.exit(main())
