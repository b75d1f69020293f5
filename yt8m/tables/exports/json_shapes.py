"""What stands around the rows in JSON: splits, answers of servers, and the types that databases write beside values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from yt8m.errors import UsageError
from yt8m.tables.words import normalized, word_set
from yt8m.tables.words.meanings import SPLIT_WORDS, plain_meaning

_ROWS_WITHIN = (("hits", "hits"), ("response", "docs"))  # where Elasticsearch and Solr have their rows
TABLES = frozenset(("values", "rows", "data", "table", "records"))  # what a table is called beside its settings
_EDGES = ("edges", "nodes")  # where GraphQL has the rows of a connection
_ANSWERS = ("data", "response", "result", "payload", "body")
# How servers call the number of all rows, of which an answer has a page; `count` and `total` are so beside `next`.
_TOTALS = word_set(
    "num_rows_total records_total total_count count_total total_results total_items total_rows total_records "
    "total_hits total_elements num_found"
)
_VAGUE_TOTALS = word_set("count total")
_NEXT = word_set(
    "next next_page next_url next_link next_page_token next_token next_cursor has_more has_next has_next_page "
    "last_evaluated_key truncated"
)
_OF_PAGES = _NEXT | word_set("previous prev page offset limit per_page page_size skip cursor")
# How DynamoDB writes the types of values, and how MongoDB writes ids, dates and numbers.
_TYPES = word_set("S N SS NS L M BOOL NULL $oid $date $numberInt $numberLong")


def is_by_split(value: Mapping[str, Any]) -> bool:
    """Whether an object is {split: rows}, such as `{"train": [...], "val": [...]}`."""
    are_splits = len(value) > 1 and all(name.lower() in SPLIT_WORDS for name in value)
    return are_splits and all(isinstance(rows, list | dict) and _are_rows(rows) for rows in value.values())


def _are_rows(rows: Any) -> bool:
    return isinstance(rows, dict) or all(isinstance(row, dict) for row in rows)


def refuse_pages(path: str, value: Mapping[str, Any]) -> None:
    """Refuses one of several pages of a server's answer: it says that there are more rows, or another page."""
    lists = [rows for rows in value.values() if isinstance(rows, list) and rows]
    rows = max((len(rows) for rows in lists if all(isinstance(row, dict | list) for row in rows)), default=0)
    if not rows:
        return
    cells = {normalized(name): cell for name, cell in value.items()}
    has_pages = not _OF_PAGES.isdisjoint(cells)
    totals = _TOTALS | (_VAGUE_TOTALS if has_pages else frozenset())
    numbers = [cell for name, cell in cells.items() if name in totals and isinstance(cell, int)]
    total = max(numbers, default=0)
    following = next(
        (name for name, cell in cells.items() if name in _NEXT and cell and not isinstance(cell, list)), ""
    )
    page = cells.get("page_info")
    if isinstance(page, dict) and any(cell is True and normalized(name) in _NEXT for name, cell in page.items()):
        following = "pageInfo"
    if total <= rows and not following:
        return
    finding = f"it has {rows} of {total} rows, so that {total - rows} are missing"
    if total <= rows:
        finding = f'it has {rows} rows, and its "{following}" says that there are more'
    raise UsageError(
        f"{path} is one page of the answer of a server: {finding}. Ask for the other pages too, and write the rows of "
        "all of them into one list; if these rows are all that you want, write their list alone."
    )


def inside(value: Mapping[str, Any], names: Collection[str]) -> Any:
    """What an object with one usual key holds, as in `{"data": {"videos": ...}}`; None for other objects."""
    for name, rows in _ROWS_WITHIN:
        if isinstance(value.get(name), dict) and isinstance(value[name].get(rows), list):
            return value[name][rows]
    for key in _EDGES:
        nodes = value.get(key)
        if not isinstance(nodes, list) or not nodes or set(value) - {*_EDGES, "pageInfo", "totalCount"}:
            continue
        are_edges = all(isinstance(node, dict) and "node" in node for node in nodes)
        if are_edges or (key == "nodes" and (not value.get("edges") or "pageInfo" in value)):
            return [node["node"] for node in nodes] if are_edges else nodes
    objects = {name: inner for name, inner in value.items() if isinstance(inner, dict)}
    lists = [inner for inner in value.values() if isinstance(inner, list)]
    if len(objects) != 1 or lists:
        return None
    ((name, inner),) = objects.items()
    if name in _ANSWERS and not all(isinstance(row, str | int | float) for row in inner.values()):
        return inner
    if len(value) == 1 and not set(_EDGES).isdisjoint(inner):
        return inner
    is_by_id = name in names and len(value) == 1 and all(isinstance(row, dict) for row in inner.values())
    return inner if is_by_id else None


def table_in(value: Mapping[str, Any]) -> list[list[Any]]:
    """The rows of the one table in an object of settings, such as `{"range": ..., "values": [[...]]}` of Google Sheets.

    Rows may lack their last cells, if these are empty. It is [] for other objects.
    """
    tables = [rows for name, rows in value.items() if isinstance(rows, list) and name.lower() in TABLES]
    if len(tables) != 1 or len(value) == 1 or not all(isinstance(row, list) for row in tables[0]):
        return []
    rows = tables[0]
    if any(isinstance(other, dict) for other in value.values()) or not rows:
        return []
    width = max(map(len, rows))
    rows = [[*row, *[None] * (width - len(row))] for row in rows]
    if str(value.get("majorDimension", "")).upper() == "COLUMNS":
        return list(map(list, zip(*rows, strict=True)))
    return rows


def without_types(values: Sequence[Any]) -> Sequence[Any]:
    """The objects of a list without the types that databases write, as in `{"id": {"S": "v1"}}`."""
    items = [value["Item"] if isinstance(value, dict) and value.keys() == {"Item"} else value for value in values]
    if not any(isinstance(item, dict) and any(map(_is_typed, item.values())) for item in items):
        return values
    return [_plain_row(item) if isinstance(item, dict) else item for item in items]


def _plain_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row without types, and without the id that MongoDB gives it if it has another one."""
    names = [name for name in row if plain_meaning(name) == "id"]
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
