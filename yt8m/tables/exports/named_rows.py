"""JSON in which the names of the columns stand beside rows without names: `{"columns": ["id"], "rows": [["v1"]]}`.

pandas (`orient="split"`), Datasette, Metabase, BigQuery and other programs for databases write tables so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from yt8m.errors import UsageError
from yt8m.tables.exports import json_shapes
from yt8m.tables.sources.source import MemorySource, refuse_repeated_columns, with_numbers
from yt8m.tables.words import normalized, word_set
from yt8m.tables.words.meanings import count_known, is_of_labels

_HEADERS = word_set("columns headers header fields cols column_names field_names names_of_columns")
_ROWS = json_shapes.TABLES | {"items"}
_NAME_KEYS = ("name", "title", "label", "field", "key", "id")  # of an object that describes a column


def read_named_rows(path: str, value: Mapping[str, Any]) -> MemorySource | None:
    """The rows of an object that has the names of their columns beside them; None for other objects."""
    headers = [
        names for key, listed in _with_schema(value) if normalized(key) in _HEADERS and (names := _names(listed))
    ]
    tables = [rows for key, rows in value.items() if normalized(key) in _ROWS and _are_lists(rows)]
    _refuse_no_rows(path, value, headers)
    if not headers and len(tables) == 1 and count_known(list(map(str, tables[0][0]))) < 2:  # no names above the rows
        _refuse_odd_names(path, value)
    if len(headers) != 1 or len(tables) != 1:
        return None
    header = list(with_numbers(headers[0], is_of_labels))
    refuse_repeated_columns(path, header)
    rows = [_cells(row) for row in tables[0]]
    rows = rows[1:] if rows[0] == headers[0] else rows
    for number, row in enumerate(rows, 1):
        if len(row) != len(header):
            raise UsageError(
                f"{path}: row {number} has {len(row)} cells, but the columns have these names: "
                f"{', '.join(header)[:200]}. Each cell needs a name, and each name a cell."
            )
    columns = {name: [row[place] for row in rows] for place, name in enumerate(header)}
    index = value.get("index")
    if isinstance(index, list) and all(isinstance(name, str) for name in index) and "id" not in columns:
        columns = {"id": index, **columns}
    return MemorySource(path, columns, "JSON of pandas" if "index" in value else "JSON of columns and rows")


def _with_schema(value: Mapping[str, Any]) -> Sequence[tuple[str, Any]]:
    """The keys and values of an object, and of its schema, as BigQuery has it."""
    schema = value.get("schema")
    return [*value.items(), *(schema.items() if isinstance(schema, Mapping) else ())]


def _names(listed: Any) -> list[str]:
    """The names of columns in a list of names, or of objects that have a name; else none."""
    if not isinstance(listed, list):
        return []
    key = next((key for key in _NAME_KEYS if all(isinstance(item, Mapping) and key in item for item in listed)), "")
    names = [item[key] for item in listed] if key else listed
    are_texts = all(isinstance(name, str) for name in names) and any(names)
    return names if are_texts and names.count("") <= 1 else []  # a column without a name is an index


def _refuse_odd_names(path: str, value: Mapping[str, Any]) -> None:
    """Refuses a list of names of which one is a number, null or a list, beside rows."""
    for key, listed in value.items():
        if normalized(key) not in _HEADERS or not isinstance(listed, list):
            continue
        odd = [item for item in listed if not (isinstance(item, str) and item)]
        if odd and not all(isinstance(item, Mapping) for item in listed):
            raise UsageError(
                f'{path}: "{key}" names the columns, but one of its names is {json.dumps(odd[0])[:60]}; expected a '
                f'text for each column. Write the names as texts, such as "{key}": ["id", "labels"].'
            )


def _refuse_no_rows(path: str, value: Mapping[str, Any], headers: Sequence[Sequence[str]]) -> None:
    """Refuses names of columns beside an empty list of rows, so that the keys are not taken for videos."""
    empty = [key for key, rows in value.items() if normalized(key) in _ROWS and rows == []]
    others = [key for key, rows in value.items() if isinstance(rows, list | dict) and rows]
    if len(headers) == len(others) == 1 and empty:
        raise UsageError(
            f'{path} has no rows: "{empty[0]}" is empty beside the names of the columns, {", ".join(headers[0])[:200]}.'
        )


def _are_lists(rows: Any) -> bool:
    """Whether rows are lists of cells, or objects such as `{"f": [{"v": cell}]}` of BigQuery."""
    if not isinstance(rows, list) or not rows:
        return False
    return all(isinstance(row, list) or _is_of_bigquery(row) for row in rows)


def _is_of_bigquery(row: Any) -> bool:
    return isinstance(row, Mapping) and row.keys() == {"f"} and isinstance(row["f"], list)


def _cells(row: Any) -> list[Any]:
    return [_plain(cell) for cell in row["f"]] if isinstance(row, Mapping) else row


def _plain(cell: Any) -> Any:
    """The value of a cell of BigQuery; of a repeated one, the list of its values."""
    value = cell["v"] if isinstance(cell, Mapping) and cell.keys() == {"v"} else cell
    return list(map(_plain, value)) if isinstance(value, list) else value
