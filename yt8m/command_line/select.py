"""`yt8m select`: chooses the videos to label next; see `labels.batch_selection`."""

from __future__ import annotations

from yt8m.command_line import config_flags, program
from yt8m.labels.select_config import SelectConfig


def main(argv: list[str]) -> int:
    """Writes the chosen videos; returns the exit status."""
    purpose = "Chooses the videos to label next: uncertain ones of rare classes that differ from one another."
    config = config_flags.read(SelectConfig, "yt8m select", purpose, argv)
    program.set_up_log()
    from yt8m.labels import batch_selection  # loads the graph code, which flag errors do not need

    return batch_selection.run(config)
