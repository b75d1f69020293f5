"""`yt8m import-checkpoint`: makes a run of a published checkpoint; see `training.checkpoint_import`."""

from __future__ import annotations

from yt8m.command_line import flags, program
from yt8m.training import checkpoint_import


def main(argv: list[str]) -> int:
    """Writes the run; returns the exit status."""
    configs = flags.import_config(argv)
    program.set_up_log()
    return checkpoint_import.run(*configs)
