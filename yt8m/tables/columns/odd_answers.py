"""A column of a class with a cell that says neither yes nor no: refused, since the class would be lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from yt8m.errors import UsageError
from yt8m.tables.columns.side_columns import says_something_else
from yt8m.tables.columns.table_columns import TableColumns
from yt8m.tables.sources.rewritten import place_of
from yt8m.tables.sources.source import ROWS_AT_ONCE
from yt8m.tables.words import normalized
from yt8m.tables.words.class_names import TRUE_WORDS, is_nothing
from yt8m.tables.words.meanings import columns_flag, is_remark

_MOST_ODD = 0.2  # share of the filled cells of a column of a class; other columns have more such cells


def refuse_odd_answers(table: TableColumns, classes: Sequence[str]) -> None:
    """Raises `UsageError` if a further column says yes and no as those of classes do, but for a few cells."""
    answers = {word for name in classes for word in table.facts_of(name).spellings}
    for name in table.unused():
        if name in classes or is_remark(name) or says_something_else(normalized(name)):
            continue
        if odd := _odd_words(table, name, answers):
            raise UsageError(
                f'{table.path}, {_place_of(table, name, odd)}: the cell of "{name}" is {min(odd)[:40]!r}; expected yes '
                f"or no, as its other cells and those of {', '.join(classes[:3])} say. Correct it, or leave the column "
                f"out by {columns_flag('unused', [name])}."
            )


def _odd_words(table: TableColumns, name: str, answers: set[str]) -> set[str]:
    """The cells, in lower case, that are no answers in a column of which almost all are; empty for other columns."""
    counts: Counter[str] = Counter()
    for value, count in table.facts_of(name).counts.items():
        counts["" if is_nothing(value) else str(value).strip().lower()] += count
    odd = {word for word in counts if word and word not in answers}
    others = {word for word in counts if word in answers}
    filled = sum(count for word, count in counts.items() if word)
    is_class = len(others) > 1 and not TRUE_WORDS.isdisjoint(others)
    return odd if is_class and sum(counts[word] for word in odd) <= _MOST_ODD * filled else set()


def _place_of(table: TableColumns, name: str, odd: set[str]) -> str:
    """The row of the first odd cell, for a message."""
    first = min(odd)
    for rows in table.source.batches(ROWS_AT_ONCE, 0, [name]):
        for place, cell in enumerate(rows.cells[name]):
            if str(cell).strip().lower() == first:
                return place_of(table.source, rows.first + place)
    return "a row"
