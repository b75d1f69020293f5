"""Tables in JSON: lists of records, records by id, lines of records, what pandas writes, and exports by their shape."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from yt8m import storage
from yt8m.errors import RunError, UsageError
from yt8m.tables.exports import annotators, json_names, json_shapes, label_studio_tasks, named_rows, nested_spans
from yt8m.tables.sources import encodings
from yt8m.tables.sources.source import MemorySource
from yt8m.tables.words.meanings import count_known, is_of_labels, meaning_of

_LINES_ENDINGS = (".jsonl", ".ndjson")
ENDINGS = (".json", *_LINES_ENDINGS)
SPLIT = "split of the file"  # the name of the column of the split, in an object {split: rows}
_ALL = 1 << 62
KEY, VALUE = "key", "value"  # the names of the columns of a JSON object {id: labels}
_VALUE_START = re.compile(r"[^\s,]")
_LIST_NAMES = ("videos", "images", "clips", "data", "records", "items", "rows", "samples", "entries", "results")


def read_json_table(path: str, control: str = "") -> MemorySource:
    """Reads the rows of a JSON file.

    Args:
      control: the control of an export of Label Studio whose answers are labels; empty if there is only one.
    """
    text = encodings.read_text(path).removeprefix("\ufeff")
    values, lines = _parse(path, text)
    source = _from_value(path, values, control) if not lines else _from_list(path, values, control, lines)
    if source is None:
        raise UsageError(
            f"{path}: the JSON has a shape that is not known; expected a list of objects such as "
            '{"id": "clip 1", "labels": ["cat", "dog"]}, or an object {"clip 1": ["cat", "dog"]}.'
        )
    return source


def read_pairs(path: str) -> MemorySource | None:
    """The rows of a JSON object {name: text, number or list of texts}, or of a list of texts; None for other JSON."""
    value, lines = _parse(path, encodings.read_text(path).removeprefix("\ufeff"))
    if lines or not value:
        return None
    if isinstance(value, list):
        return MemorySource(path, {KEY: value}, "JSON") if all(isinstance(item, str) for item in value) else None
    pairs = [(name, item) for name, items in value.items() for item in (items if isinstance(items, list) else [items])]
    if not all(isinstance(item, str | int | float) for _, item in pairs):
        return None
    return MemorySource(path, {KEY: [name for name, _ in pairs], VALUE: [item for _, item in pairs]}, "JSON")


def _parse(path: str, text: str) -> tuple[Any, list[int]]:
    """(the value of a JSON file, []), or (the values of its lines, their numbers)."""
    try:
        value = storage.parse_json(text)
        is_line = path.lower().removesuffix(".gz").endswith(_LINES_ENDINGS) and "\n" not in text.strip()
        return ([value], [1]) if is_line and isinstance(value, dict) else (value, [])
    except ValueError as error:
        whole_error = error
    values, numbers = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                values.append(storage.parse_json(line))
            except ValueError as error:
                if not values:
                    return _parse_chain(path, text, whole_error)
                raise RunError(f"{path}, line {number}: this is not JSON: {error}.") from error
            numbers.append(number)
    return values, numbers


def _parse_chain(path: str, text: str, whole_error: ValueError) -> tuple[list[Any], list[int]]:
    """(the values that stand one after another, over several lines each; the lines in which they begin).

    The items of lists that stand so are taken one by one.
    """
    decoder = json.JSONDecoder()
    values, numbers, end, line = list[Any](), list[int](), 0, 1
    while match := _VALUE_START.search(text, end):
        line += text.count("\n", end, match.start())
        try:
            value, end = decoder.raw_decode(text, match.start())
            value = storage.parse_json(text[match.start() : end])
        except (ValueError, RecursionError) as error:
            if not values:
                raise RunError(f"{path} is not JSON: {whole_error}.") from error
            raise RunError(f"{path}, line {line}: this is not JSON: {error}.") from error
        items = value if isinstance(value, list) else [value]
        values += items
        numbers += [line] * len(items)
        line += text.count("\n", match.start(), end)
    return values, numbers


def _from_value(path: str, value: Any, control: str) -> MemorySource | None:
    if isinstance(value, list):
        return _from_list(path, value, control)
    return _from_object(path, value, control) if isinstance(value, dict) else None


def _from_list(path: str, values: Sequence[Any], control: str, lines: Sequence[int] = ()) -> MemorySource | None:
    """The rows of a list of objects, or of a list of lists."""
    form = "JSON lines" if lines else "JSON"
    values = json_shapes.without_types(values)
    if values and all(isinstance(value, dict) for value in values):
        if pairs := _pairs_of(values):
            return _from_value(path, pairs, control)
        if export := label_studio_tasks.read_tasks(path, values, control) or annotators.from_records(
            path, values, control
        ):
            return export
        if spans := nested_spans.from_videos(path, values):
            return spans
        names = list(dict.fromkeys(name for value in values for name in value))
        cells = {name: [value.get(name) for value in values] for name in names}
        source = MemorySource(path, _flattened(cells), form, lines=lines)
        source.hints = annotators.doccano_hints(source)
        return source
    if values and all(isinstance(value, list) for value in values):
        return _from_lists(path, values, form, lines)
    return None


def _pairs_of(values: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The object {id: labels} of a list of objects such as {"clip 1": ["cat"]}, each with a key of its own; else {}."""
    pairs = {name: item for value in values if len(value) == 1 for name, item in value.items()}
    return pairs if len(pairs) == len(values) > 1 and not any(map(meaning_of, pairs)) else {}


def _from_lists(path: str, rows: Sequence[list[Any]], form: str, lines: Sequence[int]) -> MemorySource | None:
    """The rows of a list of lists, whose first one may be the header."""
    if len({len(row) for row in rows}) != 1 or not rows[0]:
        return None
    has_header = all(isinstance(name, str) for name in rows[0]) and (count_known(rows[0]) >= 2 or _is_header(rows))
    header = rows[0] if has_header else [f"column {number}" for number in range(1, len(rows[0]) + 1)]
    columns = zip(*rows[has_header:], strict=True)
    return MemorySource(path, dict(zip(header, map(list, columns), strict=True)), form, lines=lines[has_header:])


def _is_header(rows: Sequence[list[Any]]) -> bool:
    """Whether the first row begins with the name of an id, and none of its cells stands below it: `id, cat, dog`."""
    is_id = (meaning_of(rows[0][0]) or ("",))[0] == "id"
    return is_id and not any(name in column for name, *column in zip(*rows, strict=True))


def _flattened_name(name: str, key: str, values: Sequence[Any], cells: Mapping[str, Any]) -> str:
    """The name of a column out of an object; of an object {class: 0 or 1}, it is the class."""
    return key if _say_yes_or_no(values) and key not in cells else f"{name}.{key}"


def _say_yes_or_no(values: Sequence[Any]) -> bool:
    return all(isinstance(item, bool | int | float) and item in (0, 1) for value in values for item in value.values())


def _keys_of_objects(values: Sequence[Any]) -> list[str]:
    """The keys that all values have, if they are objects, or also those that some lack, if labels are among them."""
    if not values or not all(isinstance(value, dict) for value in values):
        return []
    keys = list(dict.fromkeys(key for value in values for key in value))
    are_equal = all(value.keys() == values[0].keys() for value in values)
    return (
        keys
        if are_equal or any(_has_names(value, key) for value in values for key in filter(is_of_labels, value))
        else []
    )


def _has_names(value: Mapping[str, Any], key: str) -> bool:
    """Whether labels stand below a key; a number says that the key itself is a class, as in {"cat": 1, "tag": 1}."""
    return value[key] is not None and not isinstance(value[key], bool | int | float)


def _flattened(cells: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The columns with those of objects inside of them, such as `snippet.tags`, if an id or the labels are missing."""
    if {"id", "labels"} <= {meaning[0] for meaning in map(meaning_of, cells) if meaning}:
        return cells
    columns: dict[str, list[Any]] = {}
    for name, values in cells.items():
        keys = () if is_of_labels(name) else _keys_of_objects(values)
        if keys:
            columns |= {_flattened_name(name, key, values, cells): [value.get(key) for value in values] for key in keys}
        else:
            columns[name] = values
    return columns


def _from_object(path: str, value: dict[str, Any], control: str) -> MemorySource | None:
    json_shapes.refuse_pages(path, value)
    if export := annotators.from_object(path, value, control):
        return export
    if json_shapes.is_by_split(value):
        return _by_split(path, value, control)
    if (rows := json_names.rows_with_names(path, value)) is not None:
        return _from_value(path, rows, control)
    if spans := nested_spans.from_object(path, value):
        return spans
    if inner := json_shapes.inside(value, _LIST_NAMES):
        return _from_value(path, inner, control)
    if table := named_rows.read_named_rows(path, value) or _from_pandas(path, value):
        return table
    if rows := json_shapes.table_in(value):
        return _from_lists(path, rows, "JSON", ())
    lists = {
        name: rows
        for name, rows in value.items()
        if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows)
    }
    list_names = [name for name in _LIST_NAMES if name in lists] or list(lists if len(lists) == 1 else ())
    if list_names:
        return _from_list(path, lists[list_names[0]], control)
    return _by_id(path, value) if value and not lists else None


def _by_split(path: str, value: dict[str, Any], control: str) -> MemorySource | None:
    """The rows of an object {split: rows}, with a column of the split."""
    sources = {split: _from_value(path, rows, control) for split, rows in value.items() if rows}
    tables = {split: source for split, source in sources.items() if source is not None}
    if len(tables) < len(sources):
        return None
    names = list(dict.fromkeys(name for source in tables.values() for name in source.columns))
    cells: dict[str, list[Any]] = {name: [] for name in [*names, SPLIT]}
    for split, source in tables.items():
        for rows in source.batches(_ALL, 0, source.columns):
            for name in names:
                cells[name] += rows.cells.get(name, [None] * rows.size)
            cells[SPLIT] += [split] * rows.size
    hints = next(iter(tables.values())).hints
    return MemorySource(path, cells, "JSON by split", {**hints, "split": SPLIT})


def _from_pandas(path: str, value: dict[str, Any]) -> MemorySource | None:
    """The columns of a data frame as pandas writes it: {column: {row: cell}}, or {column: [cells]}."""
    if len(value) < 2 or count_known(list(value)) < 2:
        return None
    columns_of_rows = list(value.values())
    if all(isinstance(column, dict) and column.keys() == columns_of_rows[0].keys() for column in columns_of_rows):
        return MemorySource(path, {name: list(column.values()) for name, column in value.items()}, "JSON of pandas")
    if all(isinstance(column, list) and len(column) == len(columns_of_rows[0]) for column in columns_of_rows):
        return MemorySource(path, value, "JSON of columns")
    return None


def _by_id(path: str, value: dict[str, Any]) -> MemorySource:
    """The rows of an object {id: labels} or {id: {column: cell}}."""
    keys, values = list(value), list(value.values())
    if all(isinstance(row, dict) for row in values):
        names = list(dict.fromkeys(name for row in values for name in row))
        cells = {name: [row.get(name) for row in values] for name in names}
        has_id = any(meaning_and_rank and meaning_and_rank[0] == "id" for meaning_and_rank in map(meaning_of, names))
        is_index = keys == [str(number) for number in range(len(keys))]
        if has_id and is_index:  # what pandas writes with orient="index"
            return MemorySource(path, cells, "JSON by row")
        return MemorySource(path, {KEY: keys, **cells}, "JSON by id", {"id": KEY})
    _refuse_inverted(path, keys, values)
    return MemorySource(path, {KEY: keys, VALUE: values}, "JSON by id", {"id": KEY, "labels": VALUE})


def _refuse_inverted(path: str, keys: Sequence[str], values: Sequence[Any]) -> None:
    """Refuses an object whose keys may be classes, and whose lists are the ids of their videos."""
    lists = [value for value in values if isinstance(value, list)]
    items = {json.dumps(item) for value in lists for item in value}
    if len(lists) == len(values) and len(items) > len(keys):
        raise UsageError(
            f"{path} has {len(keys)} keys, such as {keys[0][:40]!r}, and {len(items)} different items in their lists. "
            "Either the keys are videos and the items labels, or the keys are classes. Write "
            '{"id": ..., "labels": ...} for each video.'
        )
