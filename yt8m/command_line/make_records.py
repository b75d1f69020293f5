"""`yt8m make-records`: makes records of a table and arrays; see `datasets.make_records`."""

from __future__ import annotations

from yt8m.command_line import config_flags
from yt8m.datasets.make_records import RecordsConfig, make


def main(argv: list[str]) -> int:
    """Writes the records; returns the exit status."""
    purpose = "Makes records of your own videos from a table of ids and labels and arrays of features."
    make(config_flags.read(RecordsConfig, "yt8m make-records", purpose, argv))
    return 0
