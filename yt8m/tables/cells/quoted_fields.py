"""Cells that are lines of CSV of their own, as Airtable writes several choices: `cat,"fox, red"`."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Sequence
from typing import Any

from yt8m.tables.cells.label_lists import NotAListError
from yt8m.tables.cells.splitting import LabelForm

_SEPARATORS = (",", ";", "|")


def find_form(texts: Collection[str]) -> LabelForm | None:
    """The form of texts in which quotes stand around some of the labels, such as those with a comma; else None."""
    quoted = [text for text in texts if '"' in text]
    for separator in _SEPARATORS if quoted else ():
        field = rf'\s*(?:"(?:[^"]|"")*"|[^"{separator}]*)\s*'
        line = re.compile(rf"{field}(?:{re.escape(separator)}{field})*")
        if not all(map(line.fullmatch, quoted)):
            continue
        split = _FieldSplit(separator)
        bare = re.compile(rf'(?:^|{re.escape(separator)})\s*[^"{separator}\s]')
        fields = [name for text in quoted for name in split(text)]
        are_cut = any(separator in name for name in fields)
        are_mixed = any(bare.search(text) for text in quoted)
        if are_cut or are_mixed:
            return LabelForm(f'separated by "{separator}", some in quotes', split, separator, checked=frozenset(fields))
    return None


class _FieldSplit:
    """Splits a text as a line of CSV."""

    def __init__(self, separator: str) -> None:
        self._separator = separator

    def __call__(self, cell: Any) -> Sequence[str]:
        try:
            (names,) = csv.reader([str(cell).replace("\n", " ")], delimiter=self._separator, skipinitialspace=True)
        except (csv.Error, ValueError) as error:
            raise NotAListError(str(cell)) from error
        return [name.strip() for name in names if name.strip()]
