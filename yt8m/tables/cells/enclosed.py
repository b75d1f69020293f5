"""Labels with signs around each: brackets, quotes and bullets.

`<cat><dog>` as Stack Exchange writes tags, `[cat][red fox]`; lines of CSV of their own, as Airtable writes several
choices, `cat,"fox, red"`; the prefix of fastText, and the marks of lists in lines.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Sequence
from typing import Any

from yt8m.tables.cells import separators
from yt8m.tables.cells.label_lists import NotAListError
from yt8m.tables.cells.splitting import LabelForm, Split, Splitter, whole_cell
from yt8m.tables.words.class_names import is_nothing

_BETWEEN = r"[\s,;|]*"
_KINDS = ("<>", "[]", "()", "{}")
# What may stand around each label of a cell: the prefix of fastText, quotes, as Python writes bytes, and the marks of
# lists in lines.
_QUOTES = tuple(
    re.compile(f"{first}(.+){last}")
    for first, last in (
        ("__label__", ""),
        *(('"', '"'), ("'", "'"), ("[\u201c\u201e]", "[\u201d\u201c]"), ("\u00ab", "\u00bb"), ("b'", "'"), ('b"', '"')),
    )
)
# Signs of Markdown and of shells, which are taken away if all labels have them.
_SIGNS = tuple(map(re.compile, (r"`([^`]+)`", r"\*\*([^*]+)\*\*", r"\*([^*]+)\*", r":([^\W_][^:]*[^\W_]):")))
_QUOTED = re.compile(r"""(["'])((?:(?!\1).)*)\1""", re.DOTALL)
_BULLETS = re.compile(r"(?:[-*\u2022\u2013]|\d{1,2}[.)])\s+(.+)")
# {brackets: (a cell of labels in them, one label)}; lists have commas and quotes within their brackets.
_PATTERNS = {
    kind: (re.compile(rf"(?:{label}{_BETWEEN})+"), re.compile(label))
    for kind in _KINDS
    for label in [rf"\{kind[0]}([^\[\](){{}}<>,;|\"']*)\{kind[1]}"]
}


def bracketed_form(texts: Collection[str]) -> LabelForm | None:
    """The form of texts all of whose labels stand in brackets; None for others.

    A cell such as `[cat]` may be a list, so that another one needs to have two pairs of brackets.
    """
    for kind, (cell, label) in _PATTERNS.items():
        if texts and all(map(cell.fullmatch, texts)):
            has_several = any(len(label.findall(text)) > 1 for text in texts)
            return LabelForm(f"each in {kind}", _BracketSplit(kind)) if has_several or kind == "<>" else None
    return None


class _BracketSplit:
    """Splits texts into the labels in brackets."""

    def __init__(self, kind: str) -> None:
        self._cell, self._label = _PATTERNS[kind]

    def __call__(self, cell: Any) -> Sequence[str]:
        if not self._cell.fullmatch(str(cell).strip()):
            raise NotAListError(str(cell))
        return self._label.findall(str(cell))


def are_quoted_whole(cells: Collection[Any]) -> bool:
    """Whether all cells stand in quotes, some with several labels, as a table that was written twice has them."""
    filled = [cell for cell in cells if not is_nothing(cell)]
    has_several = any(re.search("[,;|]", str(cell)) for cell in filled)
    return has_several and all(isinstance(cell, str) and _QUOTED.fullmatch(cell.strip()) for cell in filled)


def without_quotes(cell: Any) -> Any:
    """A cell without the quotes around it."""
    return match[2] if isinstance(cell, str) and (match := _QUOTED.fullmatch(cell.strip())) else cell


def form_of_fields(texts: Collection[str]) -> LabelForm | None:
    """The form of texts in which quotes stand around some of the labels, such as those with a comma; else None."""
    quoted = [text for text in texts if '"' in text]
    for separator in ",;|" if quoted else ():
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


class _MarkSplit:
    """Splits texts, and takes away what stands around each label."""

    def __init__(self, split: Split, pattern: re.Pattern[str]) -> None:
        self._split, self._pattern = split, pattern

    def __call__(self, cell: Any) -> Sequence[str]:
        names = [str(name).strip() for name in self._split(cell)]
        return [match[1] if (match := self._pattern.fullmatch(name)) else name for name in names]


def find_marks(pieces: Sequence[Sequence[str]], separator: str) -> re.Pattern[str] | None:
    """The quotes or bullets around the labels of the cells that have several, or of all; None if there are none.

    Some programs write quotes around most names alone, such as those with blanks.
    """
    several = [names for names in pieces if len(names) > 1] or pieces
    patterns = (*_QUOTES, *_SIGNS, *([_BULLETS] if separator == "\n" else []))
    names_in_cells = [name for names in several for name in names]
    for pattern in patterns:
        count = sum(pattern.fullmatch(name) is not None for name in names_in_cells)
        if count and (count == len(names_in_cells) or (pattern in _QUOTES and 2 * count > len(names_in_cells))):
            return pattern
    return None


def marked_form(pattern: re.Pattern[str], separator: str, pieces: Sequence[Sequence[str]]) -> LabelForm:
    """The form of labels with quotes or bullets around each."""
    marks = {_BULLETS: "with bullets", _QUOTES[0]: "with __label__", **dict.fromkeys(_SIGNS, "with signs around each")}
    separated = f", separated by {separators.show(separator)}" if separator else ""
    split = _MarkSplit(Splitter(separator) if separator else whole_cell, pattern)
    checked = frozenset(name for names in pieces for name in split(separator.join(names)))
    return LabelForm(f"{marks.get(pattern, 'in quotes')}{separated}", split, separator, checked=checked)
