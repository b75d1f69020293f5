"""`yt8m average-checkpoints`: writes the mean of several checkpoints; see `export.averages`."""

from __future__ import annotations

from yt8m.command_line import config_flags, program
from yt8m.config.programs import AverageConfig
from yt8m.export import averages


def main(argv: list[str]) -> int:
    """Averages the checkpoints that the flags name; returns the exit status."""
    config = config_flags.read(AverageConfig, "yt8m average-checkpoints", "Averages checkpoints of a run.", argv)
    program.set_up_log()
    return averages.run(config)
