"""`yt8m runs [FOLDER ...]`: lists runs; see `reports.run_list`."""

from __future__ import annotations

from yt8m.command_line import config_flags
from yt8m.reports import run_list


def main(argv: list[str]) -> int:
    """Prints the table; returns the exit status."""
    folders: list[str] = []
    purpose = (
        "yt8m runs [FOLDER ...]: lists the runs in folders at any depth, local or gs://, by default those in runs/."
    )
    return run_list.run(config_flags.read(run_list.RunsConfig, "yt8m runs", purpose, argv, folders), folders)
