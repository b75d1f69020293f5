"""How the labels of a column are written: a description for people, and a function that gives the labels of a cell."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from yt8m.tables.cells import label_lists
from yt8m.tables.cells.label_lists import NotAListError

# Signs and letters as HTML writes them; others, such as `&or;`, may be a name and a separator.
_ENTITY = re.compile(
    r"&(?:amp|lt|gt|quot|apos|nbsp|szlig|[A-Za-z]{1,2}(?:acute|grave|circ|uml|tilde|cedil|ring|slash|lig)|"
    r"#\d{2,6}|#[xX][0-9A-Fa-f]{2,5});"
)
Split = Callable[[Any], Sequence[str]]


class LabelForm(NamedTuple):
    """How the labels of a column are written.

    Attributes:
      description: the words for the summary, such as `separated by ","`; empty for one name in each cell.
      separator: the separator between labels in a text; empty for another form.
      has_whole_floats: whether the numbers of classes are written as 3.0.
      vector_size: the number of classes, if each cell says 0 or 1 of each; else 0.
      has_times: whether each label has its start and end, which `split` leaves out.
    """

    description: str
    split: Split
    separator: str = ""
    has_whole_floats: bool = False
    checked: frozenset[str] = frozenset()
    vector_size: int = 0
    has_times: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether each text is a name, or is cut at each separator, whatever its parts are."""
        return self.split is whole_cell or (isinstance(self.split, Splitter) and not self.split.whole)


class label_object(dict[str, Any]):  # noqa: N801 - it stands for a JSON object, in a form that can be a key
    """A JSON object in a cell, so that it can be a key of a dictionary."""

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(str(self))


def hashable(value: Any) -> Any:
    """A cell as a key of a dictionary: lists become tuples."""
    if isinstance(value, list):
        return tuple(map(hashable, value))
    return label_object(value) if isinstance(value, dict) else value


def has_entities(cell: Any) -> bool:
    """Whether a text, or one in a list, has signs as HTML writes them, such as `R&amp;B`."""
    return not isinstance(cell, int | float) and "&" in (text := str(cell)) and _ENTITY.search(text) is not None


def unescaped(cell: Any) -> Any:
    """A cell with the signs themselves in place of entities of HTML."""
    if isinstance(cell, str):
        return _ENTITY.sub(lambda match: html.unescape(match[0]), cell)
    if isinstance(cell, list | tuple):
        return type(cell)(map(unescaped, cell))
    if isinstance(cell, Mapping):
        return label_object((unescaped(key), unescaped(value)) for key, value in cell.items())
    return cell


def whole_cell(cell: Any) -> Sequence[str]:
    """The cell as the only name; a list is no name."""
    if isinstance(cell, list | tuple | dict):
        if cell:
            raise NotAListError(str(cell))
        return ()
    return (cell,)


class Splitter:
    """Splits texts by a separator; a list has its labels already."""

    def __init__(self, separator: str, whole: Collection[str] = ()) -> None:
        self._separator, self.whole = None if separator == " " else separator, frozenset(whole)

    def __call__(self, cell: Any) -> Sequence[str]:
        """The labels of a cell."""
        if isinstance(cell, list):
            return [str(name) for name in label_lists.flatten(cell) if name is not None]
        text = str(cell)
        return [text] if text in self.whole else text.split(self._separator)
