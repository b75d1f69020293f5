"""Names of classes that stand beside the rows of a JSON file, which have numbers of classes or vectors of 0 and 1."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from yt8m.errors import UsageError
from yt8m.tables.cells.label_lists import NAME_KEYS
from yt8m.tables.exports.json_shapes import is_by_split
from yt8m.tables.words import normalized, word_set, words
from yt8m.tables.words.meanings import is_of_labels, plain_meaning

_NAMES_BESIDE = word_set(
    "classes categories label_names class_names names id2label label2id label_map class_map labels ontology "
    "class_to_idx idx_to_class tags genres topics class_list label_list tag_names category_names"
)
_ABOUT = word_set("info meta metadata header config dataset project about")  # keys of what is said of a file
_NUMBERS = re.compile(r"\d{1,9}(?:[\s,;|]+\d{1,9})*", re.ASCII)
_ID_KEYS = words("id tag_id label_id class_id category_id index number idx")
Row = Mapping[str, Any]


class ClassNames(NamedTuple):
    """The names of the classes of a file.

    Attributes:
      key: the key of the JSON object that has them.
      names: {number, or text that stands for a class: its name}, in the order of the file.
    """

    key: str
    names: Mapping[Any, str]

    def of_cells(self, path: str, cells: Sequence[Any]) -> list[Any]:
        """Cells of labels with the names of their classes; as they are if they have names already."""
        cells = self._read_numbers(cells)
        filled = [cell for cell in cells if cell not in (None, "", [])]
        if self._are_vectors(path, filled):
            return [self._of_vector(cell) if isinstance(cell, list) else cell for cell in cells]
        items = [_number_in(item) for cell in filled for item in (cell if isinstance(cell, list) else [cell])]
        if not items or not all(type(item) is int or (isinstance(item, str) and item in self.names) for item in items):
            return list(cells)
        if set(items) <= set(self.names.values()):
            return list(cells)
        if unnamed := next((item for item in items if item not in self.names), None):
            raise UsageError(f'{path}: "{self.key}" has no name for the class {unnamed}, which a row has.')
        return [self._of_numbers(cell) if cell is not None and cell != "" else cell for cell in cells]

    def _read_numbers(self, cells: Sequence[Any]) -> Sequence[Any]:
        """Cells with numbers in place of their texts, as in `"0 1 1"` and `["0", "1"]`, if all are such."""
        texts = [
            item for cell in cells for item in (cell if isinstance(cell, list) else [cell]) if item not in (None, "")
        ]
        if not texts or not all(isinstance(text, str) and _NUMBERS.fullmatch(text) for text in texts):
            return cells
        if not {*self.names, *self.names.values()}.isdisjoint(texts):
            return cells
        return [
            [int(item) for item in cell] if isinstance(cell, list) else list(map(int, re.findall(r"\d+", cell or "")))
            for cell in cells
        ]

    def _of_numbers(self, cell: Any) -> Any:
        if isinstance(cell, list):
            return [self.names[_number_in(item)] for item in cell]
        return self.names[_number_in(cell)]

    def _of_vector(self, cell: Sequence[Any]) -> list[str]:
        return [name for name, item in zip(self.names.values(), cell, strict=True) if item]

    def _refuse_unknown(self, path: str, lists: Sequence[list[Any]]) -> None:
        """Refuses vectors such as [1, null, 0], whose null may mean no or not known."""
        for cell in lists:
            if None in cell and len(cell) == len(self.names) > 1 and all(item in (0, 1, None) for item in cell):
                raise UsageError(
                    f"{path}: null in {str(cell)[:60]} may mean that a video does not have a class, or that this is "
                    "not known. Write 0 or 1 for each class, or the names of the classes that a video has."
                )

    def _are_vectors(self, path: str, cells: Sequence[Any]) -> bool:
        """Whether each cell says of each class whether a video has it. A list of numbers of classes repeats none."""
        lists = [cell for cell in cells if isinstance(cell, list)]
        self._refuse_unknown(path, lists)
        if not lists or not all(item in (0, 1) for cell in lists for item in cell if not isinstance(item, list | dict)):
            return False
        if any(isinstance(item, str | list | dict) for cell in lists for item in cell):
            return False
        repeats = any(len(set(cell)) < len(cell) for cell in lists) or any(type(x) is not int for c in lists for x in c)
        if not repeats and all(len(cell) == len(self.names) for cell in lists) and len(self.names) > 1:
            raise UsageError(
                f'{path}: each cell, such as {lists[0]}, has a 0 and a 1: either the numbers of two classes of "'
                f'{self.key}", or of each whether the video has it. Write the names of the classes that a video has.'
            )
        odd = [cell for cell in cells if not isinstance(cell, list) or len(cell) != len(self.names)]
        if repeats and odd:
            raise UsageError(
                f"{path}: cells such as {str(next(c for c in lists if len(set(c)) < len(c)))[:60]} say of each class "
                f'whether the video has it, but "{self.key}" names {len(self.names)} classes, and {str(odd[0])[:60]} '
                "has another number of values. Write the names of the classes that a video has."
            )
        return repeats


def _number_in(item: Any) -> Any:
    """The number of a class in an object such as `{"id": 5}`; anything else as it is."""
    if isinstance(item, Mapping) and len(item) == 1 and next(iter(item)) in _ID_KEYS:
        return next(iter(item.values()))
    return item


def find_names(value: Row) -> ClassNames | None:
    """The only names of classes that stand in an object; None if there are none, or several."""
    tables = [
        ClassNames(key, names)
        for key, listed in value.items()
        if normalized(key) in _NAMES_BESIDE and (names := names_by_number(listed))
    ]
    if tables:
        return tables[0] if len(tables) == 1 else None
    about = [inner for key, inner in value.items() if normalized(key) in _ABOUT and isinstance(inner, dict)]
    return find_names(about[0]) if len(about) == 1 else None


def names_by_number(listed: Any) -> dict[Any, str]:
    """{number: name} of names, of objects with an id and a name, of {number: name} or {name: number}; else empty."""
    if isinstance(listed, list) and all(isinstance(name, str) for name in listed):
        return dict(enumerate(listed))
    if isinstance(listed, list):
        return _names_in_objects(listed)
    if not isinstance(listed, dict):
        return {}
    if all(isinstance(name, str) and key.isdecimal() for key, name in listed.items()):
        return {int(key): name for key, name in listed.items()}
    return {number: name for name, number in listed.items()} if all(type(x) is int for x in listed.values()) else {}


def _names_in_objects(listed: Sequence[Any]) -> dict[Any, str]:
    """{id: name} of a list of objects such as {"id": 1, "name": "cat"}; empty for other lists."""
    names: dict[Any, str] = {}
    for place, entry in enumerate(listed):
        keys = [key for key in NAME_KEYS if isinstance(entry, dict) and isinstance(entry.get(key), str)]
        if not keys or any(isinstance(item, list) for item in entry.values()):
            return {}
        number = next((entry[key] for key in _ID_KEYS if isinstance(entry.get(key), int | str)), place)
        names[number] = entry[keys[0]]
    return names if len(names) == len(listed) else {}


def rows_with_names(path: str, value: Row) -> Any:
    """The rows of an object in which names of classes stand beside them, with these names; None for other objects.

    The rows are a list of objects, an object by id, or either of them by split.
    """
    names = find_names(value)
    if names is None:
        return None
    if (joined := _joined(value, names)) is not None:
        return joined
    others = {
        key: rows
        for key, rows in value.items()
        if key != names.key and normalized(key) not in _ABOUT and isinstance(rows, list | dict) and rows
    }
    if len(others) > 1 and is_by_split(others):
        return {split: _with_names(path, rows, names) for split, rows in others.items()}
    rows_of_others = [rows for rows in others.values() if _are_rows(rows)]
    labelled = [rows for rows in rows_of_others if _have_labels(rows)]
    rows_of_others = labelled if len(labelled) == 1 else rows_of_others if len(others) == 1 else []
    return _with_names(path, rows_of_others[0], names) if rows_of_others else None


def _have_labels(rows: Any) -> bool:
    """Whether rows have a column of labels, or are lists by id."""
    cells = rows if isinstance(rows, list) else list(rows.values())
    if all(isinstance(cell, dict) for cell in cells):
        return any(is_of_labels(name) for row in cells for name in row)
    return all(isinstance(cell, list) for cell in cells)


def _joined(value: Row, names: ClassNames) -> list[Row] | None:
    """The rows of a file of three tables, as of a database: names, videos, and the pairs of their ids; else None."""
    tables = {key: rows for key, rows in value.items() if key != names.key and isinstance(rows, list) and rows}
    if len(tables) != 2 or not all(isinstance(row, dict) for rows in tables.values() for row in rows):
        return None
    for (key, videos), (_, links) in (tuple(tables.items()), tuple(tables.items())[::-1]):
        columns = {name for link in links for name in link}
        to_video, to_class = (
            [name for name in columns if normalized(name) in (f"{_singular(owner)}_id", f"{_singular(owner)}id")]
            for owner in (key, names.key)
        )
        if len(to_video) == len(to_class) == 1 and all("id" in video for video in videos):
            labels: dict[Any, list[str]] = {video["id"]: [] for video in videos}
            for link in links:
                labels[link[to_video[0]]].append(names.names[link[to_class[0]]])
            return [{**_without_number(video), "labels": labels[video["id"]]} for video in videos]
    return None


def _singular(name: str) -> str:
    word = normalized(name)
    return f"{word[:-3]}y" if word.endswith("ies") else word.removesuffix("es" if word.endswith("sses") else "s")


def _without_number(video: Row) -> Row:
    """A video without the number that a database gives it, if it has a name."""
    names = [key for key in video if key != "id" and (plain_meaning(key) in ("id", "path") or key == "name")]
    return {key: cell for key, cell in video.items() if key != "id"} if names else video


def _are_rows(rows: Any) -> bool:
    """Whether rows are a list of objects, or an object of objects, of lists, or of numbers by id."""
    if isinstance(rows, list):
        return all(isinstance(row, dict) for row in rows)
    cells = list(rows.values())
    return all(isinstance(cell, dict) for cell in cells) or all(isinstance(cell, list | int) for cell in cells)


def _with_names(path: str, rows: Any, names: ClassNames) -> Any:
    """Rows with the names of their classes."""
    if isinstance(rows, list):
        return with_names(path, rows, names)
    cells = list(rows.values())
    if not all(isinstance(cell, dict) for cell in cells):
        return dict(zip(rows, names.of_cells(path, cells), strict=True))
    return dict(zip(rows, with_names(path, cells, names), strict=True))


def with_names(path: str, rows: Sequence[Row], names: ClassNames) -> Sequence[Row]:
    """Rows whose only column of labels has the names of the classes in place of their numbers."""
    columns = {name for row in rows for name in row if is_of_labels(name)}
    if len(columns) != 1:
        return rows
    (column,) = columns
    cells = names.of_cells(path, [row.get(column) for row in rows])
    return [{**row, column: cell} if column in row else row for row, cell in zip(rows, cells, strict=True)]
