"""Opens a file of rows: the ending of its name, or else its content, says what it is."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from yt8m import storage
from yt8m.errors import UsageError, refusing
from yt8m.tables import annotators, json_source, workbook_source
from yt8m.tables.array_source import ArraySource
from yt8m.tables.arrow_source import ArrowSource
from yt8m.tables.csv_source import CsvSource
from yt8m.tables.sources import Source, odd_table, refuse_unreadable

_TEXT_ENDINGS = (".csv", ".tsv", ".txt", ".tab", ".lst", ".list")
_ARROW_ENDINGS = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
_GZIP = ".gz"
# The endings of the files that `open_source` takes, without `.gz`.
ENDINGS = (*_TEXT_ENDINGS, *_ARROW_ENDINGS, *workbook_source.ENDINGS, *json_source.ENDINGS, ".npz", ".xml")
_UNSAFE = (".pkl", ".pickle", ".rds", ".rdata", ".mat", ".h5", ".hdf5")


def is_table(path: str) -> bool:
    """Whether the ending of a path is that of a table, or it is a pipe."""
    return _ending(path) in ENDINGS


def open_source(flag: str, path: str, column_names: Sequence[str] = (), control: str = "") -> Source:
    """Opens a table, whatever its form."""
    path, sheet = _split_sheet(path)
    ending = _ending(path)
    if ending not in ENDINGS:
        remedy = " Save the table as CSV, Parquet or JSON." if ending in _UNSAFE else ""
        raise UsageError(f"{flag}={path}: expected a file that ends in {', '.join(ENDINGS)}.{remedy}")
    refuse_unreadable(flag, path)
    with refusing(functools.partial(odd_table, path)):
        return _open(path, ending, sheet, column_names, control)


def _open(path: str, ending: str, sheet: str, column_names: Sequence[str], control: str) -> Source:
    if ending in _TEXT_ENDINGS:
        return annotators.from_table(CsvSource(path, column_names))
    if ending in _ARROW_ENDINGS:
        return ArrowSource(path)
    if ending in workbook_source.ENDINGS:
        return workbook_source.read_workbook(path, sheet, column_names)
    if ending in json_source.ENDINGS:
        return json_source.read_json_table(path, control)
    return ArraySource(path) if ending == ".npz" else annotators.read_cvat(path)


def _ending(path: str) -> str:
    """The ending of a path, without that of gzip; `.csv` for a pipe that has none, such as `<(program)` of a shell."""
    name = _split_sheet(path)[0].lower().removesuffix(_GZIP)
    if "." in name.rpartition("/")[2]:
        return "." + name.rpartition(".")[2]
    return ".csv" if storage.is_special(path) else ""


def _split_sheet(path: str) -> tuple[str, str]:
    """(path, sheet) of `book.xlsx#sheet`; a file whose own name has the sign is taken as it is."""
    file, sign, sheet = path.rpartition("#")
    is_workbook = sign and file.lower().endswith(workbook_source.ENDINGS) and not storage.exists(path)
    return (file, sheet) if is_workbook else (path, "")
