"""Answers of people in a table: ids of videos and their labels, in every form that `make-records --table` reads."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Collection, Iterator
from typing import Any

from yt8m.errors import RunError, UsageError, quantity, refusing
from yt8m.tables.exports.label_studio import Answer
from yt8m.tables.opening import open_source
from yt8m.tables.shapes import own_tables
from yt8m.tables.sources.source import ROWS_AT_ONCE, Rows
from yt8m.tables.table_flags import TableFlags
from yt8m.tables.understood import UnderstoodTable, understand
from yt8m.tables.words.class_names import NO_CLASS, is_nothing, says_no_class

_OTHER_FLAGS = re.compile("--(columns|rows|label_separator)")  # of `make-records --table`, which errors name
_TIMES = frozenset(["start", "end", "spans"])
_COUNTS = own_tables.ANSWERS_HEADER[2:]  # how many people answered, and how many disagree


def read_label_table(path: str, vocabulary: Collection[str]) -> Iterator[tuple[str, Answer]]:
    """Yields the id of each answered video and its labels.

    A row without labels is no answer, as people may not have come to it; `(none)` says that they have seen no class.

    Args:
      vocabulary: the names of the classes, as far as they are known.
    """
    are_joint = own_tables.are_answers(open_source("--labels", path))
    table = _open(path, vocabulary, _COUNTS if are_joint else ())
    unanswered = set[str]() if are_joint else _unanswered_ids(table)
    names, numbers = set[str](), dict[str, int]()
    for number, video, labels, counts in _rows(table):
        earlier = numbers.setdefault(video, number)
        if earlier != number:
            raise RunError(
                f"{path}, {table.where(number)}: {table.where(earlier)} has the same id, {video[:60]!r}; remove "
                "one of them."
            )
        names.update(labels)
        if video not in unanswered:
            with refusing(functools.partial(_refused_row, f"{path}, {table.where(number)}")):
                people, disagreement = (int(counts[0]), float(counts[1])) if counts else (1, 0.0)
            yield video, Answer(tuple(sorted(labels)), people, disagreement)
    table.refuse_combinations(names)
    _tell_unanswered(path, unanswered)


def _open(path: str, vocabulary: Collection[str], counts: tuple[str, ...]) -> UnderstoodTable:
    """The table with further columns `counts`; refuses one of spans."""
    flags = TableFlags(vocabulary=frozenset(vocabulary), can_have_spans=True, path_endings=(), extra_columns=counts)
    try:
        table = understand("--labels", path, flags)
    except UsageError as error:
        if not _OTHER_FLAGS.search(str(error)):
            raise
        raise UsageError(
            f"{error} These flags are for --table; in the file of --labels, call the columns id and labels, take "
            "others away, and put ; between labels."
        ) from error
    if not _TIMES.isdisjoint(table.columns):
        raise UsageError(
            f"--labels={path} has labels of parts of videos, with starts and ends; expected labels of whole videos. "
            f"Spans are read by yt8m make-records --table={path} --rows=spans."
        )
    return table


def sound_batches(table: UnderstoodTable) -> Iterator[Rows]:
    """The batches of a table of answers; refuses rows that cannot be read."""
    for rows in table.batches(ROWS_AT_ONCE):
        for number, problem in sorted(rows.bad.items()):
            raise RunError(f"{table.path}, {table.where(number)}: {problem}. Correct the row.")
        yield rows


def _rows(table: UnderstoodTable) -> Iterator[tuple[int, str, set[str], list[Any]]]:
    """Yields the number of each row, its id, labels and further cells."""
    others = [name for name in _COUNTS if name in table.columns]
    for rows in sound_batches(table):
        columns = [rows.cells[name] for name in ("id", "labels", *others)]
        for number, (video, names, *counts) in enumerate(zip(*columns, strict=True), rows.first):
            if not str(video).strip():
                raise RunError(f"{table.path}, {table.where(number)}: the id is empty; write it, or remove the row.")
            yield number, str(video).strip(), set(map(table.clean_label, names)) - {""}, counts


def _unanswered_ids(table: UnderstoodTable) -> set[str]:
    """The ids of videos whose labels nobody has written."""
    are_answered: dict[str, bool] = {}
    for video, cells in table.label_cells():
        is_answered = any(map(_says_something, cells))
        are_answered[str(video).strip()] = are_answered.get(str(video).strip(), False) or is_answered
    return {video for video, is_answered in are_answered.items() if not is_answered}


def _says_something(cell: Any) -> bool:
    """Whether a cell has a label, or says that there is none, as an empty list of a program does."""
    return not is_nothing(cell) or says_no_class(cell) or isinstance(cell, list | tuple) or str(cell)[:1] == "["


def _tell_unanswered(path: str, unanswered: Collection[str]) -> None:
    if unanswered:
        print(
            f"Warning: --labels={path} has {quantity(len(unanswered), 'video')} without a label, such as "
            f"{min(unanswered)[:60]!r}, which keep those that they have. Write {NO_CLASS} if people have seen no "
            "class.",
            file=sys.stderr,
        )


def _refused_row(where: str, error: Exception) -> RunError:
    return RunError(f"{where}: expected the number of people and the share of those who disagree ({error}).")
