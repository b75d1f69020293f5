"""Opens a file of rows: the ending of its name says what it is, unless its first bytes say something else."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from yt8m import file_kinds, storage
from yt8m.errors import UsageError, refusing
from yt8m.tables.exports import annotators, json_source, label_tracks, nested_spans
from yt8m.tables.sources import word_lists, workbook_source
from yt8m.tables.sources.array_source import ArraySource
from yt8m.tables.sources.arrow_source import ArrowSource
from yt8m.tables.sources.csv_source import CsvSource
from yt8m.tables.sources.encodings import open_bytes
from yt8m.tables.sources.source import Source, odd_table, refuse_unreadable

_TEXT_ENDINGS = (".csv", ".tsv", ".txt", ".tab", ".lst", ".list")
_ARROW_ENDINGS = (".parquet", ".pq", ".arrow", ".feather", ".ipc")
_GZIP = ".gz"
# The endings of the files that `open_source` takes, without `.gz`.
ENDINGS = (
    *_TEXT_ENDINGS,
    *_ARROW_ENDINGS,
    *workbook_source.ENDINGS,
    *json_source.ENDINGS,
    ".npz",
    ".xml",
    *label_tracks.ENDINGS,
)
# The ending that files have by their kind.
_ENDING_OF = {
    file_kinds.OFFICE: ".xlsx",
    file_kinds.OLD_OFFICE: ".xls",
    file_kinds.NPZ: ".npz",
    file_kinds.PARQUET: ".parquet",
    file_kinds.ARROW: ".arrow",
}
_EXPECTED = f"expected a file that ends in {', '.join(ENDINGS)}"
_JSON_STARTS = (b'{"', b"[{", b'[["', b"{\n", b"[\n", b"{\r\n", b"[\r\n")
_BLANKS = b"\xef\xbb\xbf \t\r\n"
_OTHER_TEXTS = (".yaml", ".yml", ".toml", ".arff", ".sql", ".html", ".htm", ".tex", ".py", ".proto", ".pbtxt")
_UNSAFE = (*_OTHER_TEXTS, ".pkl", ".pickle", ".rds", ".rdata", ".mat", ".h5", ".hdf5")


def is_table(path: str) -> bool:
    """Whether the ending of a path is that of a table, or it is a pipe."""
    return _ending(path) in ENDINGS


def is_text_table(flag: str, path: str) -> bool:
    """Whether a table is CSV in a text file, whatever its name: all that is no workbook, JSON, Parquet, ..."""
    ending = _ending(path)
    if storage.is_special(path) or not storage.exists(path):
        return True
    return _true_ending(flag, path, ending if ending in ENDINGS else ".csv") in _TEXT_ENDINGS


def open_source(flag: str, path: str, column_names: Sequence[str] = (), control: str = "") -> Source:
    """Opens a table, whatever its form."""
    path, sheet = _split_sheet(path)
    ending = _ending(path)
    if storage.is_dir(path):
        with refusing(functools.partial(odd_table, path)):
            if tracks := label_tracks.files_in(path):
                return label_tracks.read(path, tracks, control)
        raise UsageError(f"{flag}={path} is a folder; name the table in it.")
    if ending in _UNSAFE:
        if (kind := storage.kind_of(path)) and not kind.is_text:
            raise UsageError(f"{flag}={path}: expected a table, but {kind}.")
        raise UsageError(f"{flag}={path}: {_EXPECTED}. Save the table as CSV, Parquet or JSON.")
    if ending in ENDINGS or storage.exists(path):
        refuse_unreadable(flag, path)
        ending = _true_ending(flag, path, ending)
    if ending not in ENDINGS:
        raise UsageError(f"{flag}={path}: {_EXPECTED}.")
    with refusing(functools.partial(odd_table, path)):
        return _open(path, ending, sheet, column_names, control)


def open_pairs(flag: str, path: str) -> Source | None:
    """Opens a JSON object of pairs, {name: text, number or texts}, or a JSON list of texts; None for any other file."""
    if not is_table(path) or not storage.exists(path) or storage.is_dir(path) or storage.is_special(path):
        return None
    refuse_unreadable(flag, path)
    if _true_ending(flag, path, _ending(path)) not in json_source.ENDINGS:
        return None
    with refusing(functools.partial(odd_table, path)):
        return json_source.read_pairs(path)


def _open(path: str, ending: str, sheet: str, column_names: Sequence[str], control: str) -> Source:
    if ending in label_tracks.ENDINGS or (ending == ".txt" and label_tracks.is_audacity(path)):
        return label_tracks.read(path, [path], control)
    if ending == ".txt" and (words := word_lists.read_word_list(path)):
        return words
    if ending in _TEXT_ENDINGS:
        return annotators.from_table(CsvSource(path, column_names))
    if ending in _ARROW_ENDINGS:
        arrow = ArrowSource(path)
        return nested_spans.from_videos(path, arrow.rows_of_objects(), form=arrow.form) or arrow
    if ending in workbook_source.ENDINGS:
        return workbook_source.read_workbook(path, sheet, column_names)
    if ending in json_source.ENDINGS:
        return json_source.read_json_table(path, control)
    return ArraySource(path) if ending == ".npz" else annotators.read_cvat(path)


def _true_ending(flag: str, path: str, ending: str) -> str:
    """The ending that the first bytes of a file say: people rename files, and programs write CSV as .xls."""
    with open_bytes(path) as file:
        start = file.read(file_kinds.SAMPLE_BYTES)
    kind = file_kinds.find_kind(start, may_be_records=True)
    is_text = file_kinds.may_be_text(start) or kind is file_kinds.UTF16
    if is_text and start.lstrip(_BLANKS).startswith(_JSON_STARTS):
        return ending if ending in json_source.ENDINGS else ".json"
    if is_text and (ending in workbook_source.ENDINGS or ending not in ENDINGS):
        return _text_under_other_name(flag, path, start)
    kind = None if is_text else kind
    true_ending = _ENDING_OF.get(kind, "") if kind else ""
    if kind and not true_ending and ending not in workbook_source.ENDINGS:
        raise UsageError(f"{flag}={path}: expected a table, but {kind}.")
    if not true_ending or (true_ending == ".xlsx" and ending in workbook_source.ENDINGS):
        return ending
    return ending if true_ending == ".parquet" and ending in _ARROW_ENDINGS else true_ending


def _text_under_other_name(flag: str, path: str, start: bytes) -> str:
    """The ending of a text that is named as a workbook, or in a way of its own: CSV, unless it is a page of HTML."""
    if start.lstrip(_BLANKS).startswith(b"<"):
        raise UsageError(
            f"{flag}={path}: this is HTML or XML, which some programs name as a workbook; open it in Excel or "
            "LibreOffice, and save it as .xlsx, or as CSV in UTF-8."
        )
    return ".csv"


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
