"""`yt8m report RUN [RUN ...]`: writes the page of one or several runs; see `reports.report_writer`."""

from __future__ import annotations

from yt8m.command_line import config_flags, program
from yt8m.errors import UsageError
from yt8m.reports import report_writer


def main(argv: list[str]) -> int:
    """Writes the page; returns the exit status.

    Raises:
      UsageError: no run is named, or for the reasons of `report_writer.write`.
    """
    folders: list[str] = []
    purpose = "Writes a page on one run, or on several side by side: name their folders after the flags."
    config = config_flags.read(report_writer.ReportConfig, "yt8m report", purpose, argv, folders)
    if not folders:
        raise UsageError("no run is named: yt8m report RUN [RUN ...].")
    program.set_up_log()
    report_writer.write(folders, config)
    return 0
