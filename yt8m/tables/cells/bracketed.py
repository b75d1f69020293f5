"""Labels of which each stands in brackets of its own: `<cat><dog>` as Stack Exchange writes tags, `[cat][red fox]`."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from yt8m.tables.cells.label_lists import NotAListError
from yt8m.tables.cells.splitting import LabelForm

_BETWEEN = r"[\s,;|]*"
_KINDS = ("<>", "[]", "()", "{}")
# {brackets: (a cell of labels in them, one label)}; lists have commas and quotes within their brackets.
_PATTERNS = {
    kind: (re.compile(rf"(?:{label}{_BETWEEN})+"), re.compile(label))
    for kind in _KINDS
    for label in [rf"\{kind[0]}([^\[\](){{}}<>,;|\"']*)\{kind[1]}"]
}


def find_form(texts: Collection[str]) -> LabelForm | None:
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
