"""`yt8m from-text`: makes a run out of the names of its classes; see `training.text_run`."""

from __future__ import annotations

from yt8m import extractors
from yt8m.command_line import config_flags, program
from yt8m.training import text_run


def main(argv: list[str]) -> int:
    """Writes the run; returns the exit status."""
    purpose = "Makes a run out of the names of its classes, by a network that compares pictures with texts."
    config, settings = config_flags.read_with(
        text_run.TextConfig, "yt8m from-text", purpose, argv, extractors, "extractor"
    )
    program.set_up_log()
    return text_run.run(config, settings)
