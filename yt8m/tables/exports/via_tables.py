"""CSV of VIA 3, which has no names of classes."""

from __future__ import annotations

from yt8m.errors import UsageError
from yt8m.tables.sources.csv_source import CsvSource

_COLUMNS = 6


def refuse_via3(source: CsvSource) -> None:
    """Refuses a CSV of VIA 3: `"1_a","[""v.mp4""]",0,"[0,2]","[]","{""1"":""0""}"` below comments."""
    if len(source.columns) != _COLUMNS or not source.dialect.is_headerless:
        return
    for rows in source.batches(1, 0, source.columns):
        _, files, _, times, _, answers = (str(cells[0]) for cells in rows.cells.values())
        if files.startswith('["') and times.startswith("[") and answers.startswith("{"):
            raise UsageError(
                f"{source.path} is a CSV of VIA 3, which has numbers in place of the names of options. Save the "
                "project in VIA (a JSON file), which is read."
            )
        return
