"""`yt8m count`: counts the videos that show each class; see `scoring.class_counting`."""

from __future__ import annotations

from yt8m.command_line import config_flags, program
from yt8m.scoring.class_counting import CountConfig, run


def main(argv: list[str]) -> int:
    """Writes the counts; returns the exit status."""
    purpose = "Counts the videos that show each class, with intervals: a labelled sample corrects the model's errors."
    config = config_flags.read(CountConfig, "yt8m count", purpose, argv)
    program.set_up_log()
    return run(config)
