"""Predictions and ratings that another program has saved: a workbook, JSON lines, UTF-16, semicolons, quoted cells.

The files that YouTube-8M's programs write are read line by line, as bytes. A file of another form first becomes such
a file, in the folder of this process, by the reader of all tables.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from yt8m import storage
from yt8m.errors import UsageError
from yt8m.storage import copies

if TYPE_CHECKING:
    from yt8m.tables.reading import ColumnTable

_SAMPLE = 1 << 16
_BINARY = re.compile(
    rb"PK\x03\x04|PAR1|ARROW1|\x1f\x8b|\xff\xfe|\xfe\xff|[^\x00]\x00[^\x00]\x00|\x00[^\x00]\x00[^\x00]"
)
_JSON = re.compile(rb'[{\[]\s*["{\[]')
_OTHER_DELIMITER = re.compile(rb"[^,]*[;\t|][^,]*")
_OTHER_END = re.compile(rb'.*(,"[^"]*"|,,+)\s*', re.DOTALL)  # a quoted last cell, or empty columns


def plain_copy(path: str, columns: Sequence[str], flag: str = "") -> str:
    """The path itself if the file is CSV as the published programs write it; else that of a copy which is.

    Args:
      flag: the flag that names the file, for messages, without dashes; empty where it is unknown.
    """
    if storage.is_special(path) or not _is_foreign(path, columns):
        return path

    name = hashlib.sha256(os.path.abspath(path).encode("utf-8", "surrogateescape")).hexdigest()[:32] + ".csv"
    copy = os.path.join(copies.workspace(), name)
    rows = _open_table(path, columns, flag).rows()
    with storage.write_atomic(copy, "w") as file:
        file.write(",".join(columns) + "\n")
        for row in rows:
            first, *others = row.cells.values()
            file.write(",".join([_quoted(first), *others]) + "\n")
    return copy


def _open_table(path: str, columns: Sequence[str], flag: str) -> ColumnTable:
    from yt8m.tables.reading import open_columns  # imports the readers of all kinds of tables

    try:
        return open_columns(f"--{flag}", path, columns)
    except UsageError as error:
        raise UsageError(str(error).removeprefix("--=")) from error


def _quoted(text: str) -> str:
    return '"{}"'.format(text.replace('"', '""')) if '"' in text or "," in text else text


def _is_foreign(path: str, columns: Sequence[str]) -> bool:
    start = storage.read_start(path, _SAMPLE)
    if _BINARY.match(start):
        return True
    line = start.removeprefix(codecs.BOM_UTF8).splitlines()[:1]
    first = line[0] if line else b""
    if _JSON.match(first) or _OTHER_DELIMITER.fullmatch(first) or _OTHER_END.fullmatch(first):
        return True
    names = [name.strip() for name in next(csv.reader([first.decode("utf-8", "replace")]), [])]
    return names != list(columns) and [name.lower() for name in names] == [name.lower() for name in columns]
