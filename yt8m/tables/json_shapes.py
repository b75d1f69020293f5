"""What stands around the rows in JSON: splits, answers of servers, and the types that databases write beside values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from yt8m.errors import UsageError
from yt8m.tables.meanings import SPLIT_WORDS, meaning_of, normalized, words

_ANSWERS = ("data", "response", "result", "payload", "body")
# How DynamoDB writes the types of values, and how MongoDB writes ids, dates and numbers.
_TYPES = frozenset(("S", "N", "SS", "NS", "L", "M", "BOOL", "NULL", "$oid", "$date", "$numberInt", "$numberLong"))
_NAMES_BESIDE = frozenset(
    words(
        "classes categories label_names class_names names id2label label2id label_map class_map labels ontology "
        "class_to_idx idx_to_class"
    )
)


def is_by_split(value: Mapping[str, Any]) -> bool:
    """Whether an object is {split: rows}, such as `{"train": [...], "val": [...]}`."""
    are_splits = len(value) > 1 and all(name.lower() in SPLIT_WORDS for name in value)
    return are_splits and all(isinstance(rows, list | dict) and _are_rows(rows) for rows in value.values())


def _are_rows(rows: Any) -> bool:
    return isinstance(rows, dict) or all(isinstance(row, dict) for row in rows)


def inside(value: Mapping[str, Any], names: Collection[str]) -> Any:
    """What an object with one usual key holds, as in `{"data": {"videos": ...}}`; None for other objects."""
    objects = {name: inner for name, inner in value.items() if isinstance(inner, dict)}
    lists = [inner for inner in value.values() if isinstance(inner, list)]
    if len(objects) != 1 or lists:
        return None
    ((name, inner),) = objects.items()
    if name in _ANSWERS and not all(isinstance(row, str | int | float) for row in inner.values()):
        return inner
    is_by_id = name in names and len(value) == 1 and all(isinstance(row, dict) for row in inner.values())
    return inner if is_by_id else None


def without_types(values: Sequence[Any]) -> Sequence[Any]:
    """The objects of a list without the types that databases write, as in `{"id": {"S": "v1"}}`."""
    items = [value["Item"] if isinstance(value, dict) and value.keys() == {"Item"} else value for value in values]
    if not any(isinstance(item, dict) and any(map(_is_typed, item.values())) for item in items):
        return values
    return [_plain_row(item) if isinstance(item, dict) else item for item in items]


def _plain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without types, and without the id that MongoDB gives it if it has another one."""
    names = [name for name in row if (meaning_of(name) or ("",))[0] == "id"]
    has_other = len(names) > 1 and _is_typed(row.get("_id"))
    return {name: _plain(cell) for name, cell in row.items() if not (has_other and name == "_id")}


def _is_typed(cell: Any) -> bool:
    return isinstance(cell, dict) and len(cell) == 1 and not _TYPES.isdisjoint(cell)


def _plain(cell: Any) -> Any:
    if not _is_typed(cell):
        return cell
    ((name, value),) = cell.items()
    if name == "NULL":
        return None
    if name == "M":
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def with_names(path: str, value: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """The rows of an object with the names of the classes that stand beside them in place of their numbers.

    The names are a list, or an object {number: name} or {name: number}.
    """
    beside = [key for key, names in value.items() if normalized(key) in _NAMES_BESIDE and _names_by_number(names)]
    columns = {name for row in rows for name in row if (meaning_of(name) or ("",))[0] == "labels"}
    cells = [row[name] for row in rows for name in columns if row.get(name) not in (None, [])]
    numbers = [item for cell in cells for item in (cell if isinstance(cell, list) else [cell])]
    if len(beside) != 1 or len(columns) != 1 or not numbers or not all(type(number) is int for number in numbers):
        return rows
    names = _names_by_number(value[beside[0]])
    if unnamed := next((number for number in numbers if number not in names), None):
        raise UsageError(f'{path}: "{beside[0]}" has no name for the class {unnamed}, which a row has.')
    return [
        {
            name: ([names[item] for item in cell] if isinstance(cell, list) else names[cell])
            if name in columns and cell is not None
            else cell
            for name, cell in row.items()
        }
        for row in rows
    ]


def _names_by_number(names: Any) -> dict[int, str]:
    """{number: name} of a list of names, of {number: name} or of {name: number}; empty for anything else."""
    if isinstance(names, list) and all(isinstance(name, str) for name in names):
        return dict(enumerate(names))
    if not isinstance(names, dict):
        return {}
    if all(isinstance(name, str) and key.isdecimal() for key, name in names.items()):
        return {int(key): name for key, name in names.items()}
    return {number: name for name, number in names.items()} if all(type(x) is int for x in names.values()) else {}
