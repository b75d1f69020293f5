"""Classes that have a column each: their names, without what programs and forms write around them, and their cells."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from yt8m.tables.class_names import FALSE_WORDS, TRUE_WORDS, is_nothing
from yt8m.tables.facts import Facts
from yt8m.tables.meanings import is_label_word
from yt8m.tables.sources import Rows

_FEW_CLASSES = 12
_CHOICE = re.compile(r"([^\[\]]*)\[([^\[\]]*[^\[\]\d][^\[\]]*)\]")  # as in `What is shown? [cat]` of a form's answers
_ANSWER = re.compile(r"Answer\.(.+?)(?:\.(?:on|true))?")  # as Mechanical Turk names the boxes of a form


def describe_classes(names: Sequence[str]) -> str:
    """The columns of classes for the summary: all of them if they are few, so that one that is no class is seen."""
    if len(names) > _FEW_CLASSES:
        return f'a column for each class, from "{names[0]}" to "{names[-1]}"'
    return "a column for each class: " + ", ".join(f'"{name}"' for name in names)


def beginning(column: str) -> str:
    """What programs and forms write before the name of a class, such as `label_` and `Answer.`; empty for nothing."""
    if match := _CHOICE.fullmatch(column):
        return match[1]
    start = re.match(r"([A-Za-z]+)[ _.:=/\-]+(?=.)", column)
    return start[0] if start and (start[0] == "Answer." or is_label_word(start[1])) else ""


def class_names(columns: Sequence[str]) -> dict[str, str]:
    """{column: class}; a beginning such as `label_`, which all columns share, is no part of the names."""
    starts = [re.match(r"([A-Za-z]+)[ _.:=/\-]+(?=.)", name) for name in columns]
    choices = [match for name in columns if (match := _CHOICE.fullmatch(name))]
    if len(choices) == len(columns) and len({match[1] for match in choices}) == 1:
        return {match[0]: match[2].strip() for match in choices}
    answers = [_ANSWER.fullmatch(name) for name in columns]
    if all(answers):
        return {match[0]: match[1] for match in answers if match}
    first = starts[0]
    if first and all(start and start[0] == first[0] for start in starts) and is_label_word(first[1]):
        return {name: name[len(first[0]) :].strip() for name in columns}
    return {name: name.strip() for name in columns}


def read_classes(
    rows: Rows, classes: Mapping[str, str], facts: Mapping[str, Facts], bad: dict[int, str]
) -> list[tuple[str, ...]]:
    """The classes of each row whose columns say yes; a cell that says neither yes nor no makes its row bad.

    Args:
      classes: {column: class}.
    """
    labels_of_rows: list[list[str]] = [[] for _ in range(rows.size)]
    for column, name in classes.items():
        is_marked = facts[column].spellings & FALSE_WORDS
        for place, cell in enumerate(rows.cells[column]):
            word = "" if cell is None else str(cell).strip().lower()
            if word in TRUE_WORDS:
                labels_of_rows[place].append(name)
            elif word not in FALSE_WORDS and (is_marked or not is_nothing(cell)):
                problem = f"the cell of {column} is {str(cell)[:40]!r}; expected yes or no, as 1 and 0"
                bad.setdefault(rows.first + place, problem)
    return list(map(tuple, labels_of_rows))
