"""What to do if no column of a table names the videos."""

from __future__ import annotations

from yt8m.tables.columns.table_columns import TableColumns
from yt8m.tables.words import normalized
from yt8m.tables.words.meanings import SPECIES_NAMES
from yt8m.tables.words.time_columns import START, meaning_of_span

_CHECKLIST = "submission_id"  # of eBird, the number of a list of what somebody saw
_RECORDINGS = "ml_catalog_numbers"  # of the Macaulay Library, which has the recordings of eBird


def are_sightings(columns: TableColumns) -> bool:
    """Whether the rows are those of "My eBird Data": species in a list, whose number is no id of a video."""
    names = set(map(normalized, columns.names))
    return _CHECKLIST in names and not SPECIES_NAMES.isdisjoint(names)


def remedy(columns: TableColumns) -> str:
    """The sentence that says which column is missing, and how to write it."""
    names = {normalized(name): name for name in columns.names}
    if are_sightings(columns):
        return _remedy_of_sightings(columns, names.get(_RECORDINGS, ""))
    if any(meaning_of_span(name) == START for name in columns.names):
        return (
            "No column says of which video a row is, as in tables of BirdNET or Audacity for one file. Add a column "
            "called file with the name of the file in each row, or name the column, as in --columns=id=COLUMN"
        )
    return "Name the column of the ids, as in --columns=id=COLUMN"


def _remedy_of_sightings(columns: TableColumns, recordings: str) -> str:
    """The sentence for "My eBird Data", whose rows are species in a list, and not recordings."""
    if recordings and not columns.is_empty(recordings):
        return (
            f'Its rows are species that somebody saw, some with numbers of recordings in "{recordings}". Write a table '
            "with a row for each of these numbers, and the columns id and labels"
        )
    return (
        "Its rows are species that somebody saw, and no column names a recording. Write the name of the video of each "
        "row into a column called id, or take the table of the Macaulay Library, which has ML Catalog Number"
    )
