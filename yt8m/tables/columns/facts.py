"""What the cells of each column are, from the first rows of a table: different values, numbers, truth values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from yt8m.errors import UsageError
from yt8m.tables.cells.splitting import hashable
from yt8m.tables.sources import footers
from yt8m.tables.sources.source import ROWS_AT_ONCE, Source
from yt8m.tables.words import word_set
from yt8m.tables.words.class_names import (
    CIRCLES,
    CROSSES,
    MARKS,
    NO_MARKS,
    WHOLE_FLOAT,
    WORD_PAIRS,
    YES_MARKS,
    is_nothing,
)
from yt8m.tables.words.numbers import WRITTEN_NUMBER

MOST_ROWS = 200_000  # rows from which the form of a table is found; later rows must fit to it
_FIRST_ROWS = 2000  # rows of all columns; of a wide table, only columns that are no features are read further
_MOST_VALUES = 30_000  # different values of a column that are kept
_FEWEST_REMARKS = 20  # videos, each with a label of its own, that are too many for classes
_NUMBER = re.compile(rf"{WRITTEN_NUMBER.pattern}|nan|[+-]?inf", re.ASCII | re.IGNORECASE)
_MOMENT = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d", re.ASCII)
_PAIRS = [
    ({"1", "1.0"}, {"0", "0.0"}),
    ({"1", "1.0"}, {"-1", "-1.0"}),
    *(({yes}, {no}) for yes, no in WORD_PAIRS),
    (YES_MARKS, NO_MARKS | {""}),
    (CIRCLES, CROSSES | {""}),
    *(({mark}, {""}) for mark in MARKS),
]


# What programs write below a header to say what the columns hold.
_TYPES = word_set(
    "string str text varchar char object discrete continuous categorical category nominal numeric number integer "
    "int float double bool boolean list"
)


class Facts:
    """What is known of a column.

    Attributes:
      counts: {value: number of rows}, at most `_MOST_VALUES` different ones; lists are tuples.
    """

    def __init__(self) -> None:
        self.counts: Counter[Any] = Counter()
        self.rows = 0

    def add(self, cells: Sequence[Any]) -> None:
        """Counts the cells of more rows, unless there are too many different ones already."""
        if len(self.counts) > _MOST_VALUES:
            return
        is_plain = not {list, dict, tuple} & set(map(type, cells))
        self.counts.update(cells if is_plain else map(hashable, cells))
        self.rows += len(cells)

    @property
    def are_all(self) -> bool:
        """Whether the values of all rows are known."""
        return len(self.counts) <= _MOST_VALUES and self.rows <= MOST_ROWS

    @property
    def filled(self) -> list[Any]:
        """The different values that are not empty."""
        return [value for value in self.counts if not is_nothing(value)]

    @property
    def is_unique(self) -> bool:
        """Whether every row has a value, and no two have the same."""
        return len(self.counts) == self.rows and not any(map(is_nothing, self.counts))

    @property
    def is_counter(self) -> bool:
        """Whether the values are successive whole numbers, as an index has them."""
        texts = [str(value) for value in self.counts]
        if len(texts) < 2 or not self.is_unique or not all(text.isdecimal() and len(text) < 18 for text in texts):
            return False
        numbers = list(map(int, texts))
        return numbers == list(range(numbers[0], numbers[0] + len(numbers)))

    @property
    def is_numeric(self) -> bool:
        """Whether all values are numbers."""
        return bool(self.filled) and all(_NUMBER.fullmatch(str(value)) for value in self.filled)

    @property
    def spellings(self) -> set[str]:
        """The values in lower case; an empty cell is an empty text."""
        return {"" if is_nothing(value) else str(value).strip().lower() for value in self.counts}

    @property
    def is_binary(self) -> bool:
        """Whether the values say yes or no: 0 and 1, true and false, x and empty cells."""
        spellings = self.spellings
        return bool(spellings - {""}) and any(spellings <= yes | no for yes, no in _PAIRS)

    @property
    def votes_or_doubts(self) -> list[str]:
        """The numbers beside 0 and 1, if these are votes or doubts on a class, the largest first; else none."""
        texts = [text for text in self.spellings if text]
        if not all(re.fullmatch(r"-?\d(\.\d+)?", text) for text in texts):
            return []
        numbers = {float(text): text for text in texts}
        are_shares = numbers.keys() <= {-1.0, 0.0, 0.5, 1.0}
        if 0.0 not in numbers or not (are_shares or all(map(float.is_integer, numbers))):
            return []
        return [numbers[number] for number in sorted(numbers.keys() - {0.0, 1.0}, key=abs, reverse=True)]

    @property
    def denies(self) -> bool:
        """Whether the values say yes or no in a way that no names of classes have: 1 and -1."""
        return self.spellings in ({"1", "-1"}, {"1.0", "-1.0"})

    def describe_odd_ids(self) -> list[str]:
        """Remarks on ids that are taken as they are, but will hardly match those in other files."""
        blank = [value for value in self.counts if isinstance(value, str) and value != value.strip()]
        refuse_ids_apart_by_blanks(blank, self.counts)
        remarks = [f"{len(blank)} ids begin or end with a blank, such as {blank[0]!r}"] if blank else []
        if self.counts and all(WHOLE_FLOAT.fullmatch(str(value)) for value in self.counts):
            remarks.append(f"ids are numbers with a fraction, such as {next(iter(self.counts))}")
        return remarks

    @property
    def has_dates(self) -> bool:
        """Whether the first values are dates with times of day, as programs write them."""
        return bool(self.filled) and all(_MOMENT.match(str(value)) for value in self.filled[:100])

    @property
    def has_lists(self) -> bool:
        """Whether a value is a list or an object."""
        return any(isinstance(value, tuple | dict) for value in self.counts)


def examine(source: Source, left_out: Iterable[str] = ()) -> dict[str, Facts]:
    """{column: what its cells are}, of all columns but those that are left out.

    Of a wide table, the columns of numbers that are no truth values are read only as far as is needed to know them.
    """
    skipped = set(left_out)
    facts = {name: Facts() for name in source.columns if name not in skipped}
    names = list(facts)
    rows_read = 0
    for rows in source.batches(_FIRST_ROWS, 0, names) if names else ():
        for name in names:
            facts[name].add(rows.cells[name])
        rows_read = rows.size
        break
    wide = len(names) > 32
    names = [name for name in names if not (wide and facts[name].is_numeric and not facts[name].is_binary)]
    for rows in source.batches(ROWS_AT_ONCE, rows_read, names) if names and rows_read == _FIRST_ROWS else ():
        for name in names:
            facts[name].add(rows.cells[name])
        if rows.first > MOST_ROWS or all(len(facts[name].counts) > _MOST_VALUES for name in names):
            break
    footers.refuse_odd_rows(source, {name: list(column.counts) for name, column in facts.items()})
    return facts


def refuse_types(path: str, facts: Mapping[str, Facts], columns: Sequence[str]) -> None:
    """Raises `UsageError` if the first row has the types of the columns, as Orange and some exports write them."""
    firsts = [str(next(iter(facts[name].counts), "")) for name in columns if name in facts]
    if len(firsts) == 2 and all(first.strip().lower() in _TYPES for first in firsts):
        raise UsageError(
            f"{path}: the first row below the header, {firsts[0]!r} and {firsts[1]!r}, has the types of the columns, "
            "and is no video. Delete such lines below the header."
        )


def refuse_remarks(source: Source, name: str, facts: Facts, counts: Mapping[Any, int]) -> None:
    """Raises `UsageError` if no two cells of a column are alike, so that it holds titles or remarks and no classes."""
    if len(counts) < _FEWEST_REMARKS or set(counts.values()) != {1} or not facts.is_unique or facts.is_numeric:
        return
    raise UsageError(
        f'{source.path}: no two cells of "{name}" are alike, such as {str(next(iter(counts)))[:60]!r}, so they are '
        f"hardly classes. Choose the column of the classes by --columns=labels=COLUMN, which may be {name}; it has: "
        f"{', '.join(source.columns)[:300]}."
    )


def refuse_ids_apart_by_blanks(blank: Sequence[str], ids: Collection[Any]) -> None:
    """Refuses ids that begin or end with a blank if others are the same without it: two videos, or one."""
    for value in blank:
        if value.strip() in ids:
            raise UsageError(
                f"the ids {value[:60]!r} and {value.strip()[:60]!r} differ only in blanks around them. If they mean "
                "one video, take the blanks out; if they mean two, give them other ids."
            )
