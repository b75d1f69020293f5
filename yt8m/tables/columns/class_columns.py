"""Classes that have a column each: their names, without what programs and forms write around them, and their cells."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from yt8m.tables.columns.facts import Facts
from yt8m.tables.columns.table_columns import TableColumns
from yt8m.tables.sources.source import ROWS_AT_ONCE, Rows
from yt8m.tables.words import forms, normalized
from yt8m.tables.words.class_names import FALSE_WORDS, TRUE_WORDS, is_nothing
from yt8m.tables.words.meanings import is_label_word

_FEW_CLASSES = 12
_CHOICE = re.compile(r"([^\[\]]*)\[([^\[\]]*[^\[\]\d][^\[\]]*)\]")  # as in `What is shown? [cat]` of a form's answers
_MOST_ROWS = 50_000
# As REDCap and Qualtrics name the columns of the options of a question.
_OPTION = re.compile(r"(.*)(?:\(choice=(?=.*\)$)| - Selected Choice - | \? - |\? - )(.+?)\)?")
_ANSWER = re.compile(r"Answer\.(.+?)(?:\.(?:on|true))?")  # as Mechanical Turk names the boxes of a form


def describe_classes(names: Sequence[str]) -> str:
    """The columns of classes for the summary: all of them if they are few, so that one that is no class is seen."""
    if len(names) > _FEW_CLASSES:
        return f'a column for each class, from "{names[0]}" to "{names[-1]}"'
    return "a column for each class: " + ", ".join(f'"{name}"' for name in names)


def option_in(column: str) -> str:
    """The option in the name of a column such as `What is shown? - Selected Choice - cat`; empty for other names."""
    match = _OPTION.fullmatch(column)
    return match[2].strip() if match else ""


def beginning(column: str) -> str:
    """What programs and forms write before the name of a class, such as `label_` and `Answer.`; empty for nothing."""
    if match := _CHOICE.fullmatch(column):
        return match[1]
    start = re.match(r"([A-Za-z]+)[ _.:=/\-]+(?=.)", column)
    return start[0] if start and (start[0] == "Answer." or is_label_word(start[1])) else ""


def class_names(columns: Sequence[str], others: Collection[str] = ()) -> dict[str, str]:
    """{column: class}; a beginning such as `label_`, which all columns share, is no part of the names.

    Args:
      others: the other columns; if `seen` is one, `seen/cat` is a choice of this question, as KoBo names it.
    """
    questions = {re.split(r"[/.-](?=[^/.-]+$)", name)[0] for name in columns}
    if len(questions) == 1 < len(columns) and not questions.isdisjoint(others):
        (question,) = questions
        return {name: name[len(question) + 1 :].strip() for name in columns}
    if len(columns) > 1 and (answers_to_forms := forms.choices_of_question(columns, others)):
        return answers_to_forms
    starts = [re.match(r"([A-Za-z]+)[ _.:=/\-]+(?=.)", name) for name in columns]
    choices = [match for name in columns if (match := _CHOICE.fullmatch(name))]
    if len(choices) == len(columns) and len({match[1] for match in choices}) == 1:
        return {match[0]: match[2].strip() for match in choices}
    options = [_OPTION.fullmatch(name) for name in columns]
    if all(options) and len({match[1] for match in options if match}) == 1:
        return {match[0]: match[2].strip() for match in options if match}
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


def choices_of(table: TableColumns, name: str) -> dict[str, str]:
    """{column: class} of columns such as `tags/cat` that say of each choice in the column `tags` whether it is there.

    KoBo and other programs for forms write both. They are taken if they agree in all rows that are looked at.
    """
    start = re.compile(re.escape(name) + r"[/.:]")
    columns = [column for column in table.names if start.match(column) and column in table.facts]
    if len(columns) < 2 or not all(table.facts[column].is_binary for column in columns):
        return {}
    classes = {column: column[len(name) + 1 :] for column in columns}
    for rows in table.source.batches(ROWS_AT_ONCE, 0, [name, *columns]):
        for text, *cells in zip(rows.cells[name], *(rows.cells[column] for column in columns), strict=True):
            answers = zip(classes.values(), cells, strict=True)
            if not _consists_of(text, [label for label, cell in answers if str(cell).strip().lower() in TRUE_WORDS]):
                return {}
        if rows.first > _MOST_ROWS:
            break
    return classes


def _consists_of(text: Any, labels: Sequence[str]) -> bool:
    """Whether a text consists of these labels alone, with any signs between them."""
    remainder = normalized(str(text or ""))
    for label in sorted(map(normalized, labels), key=len, reverse=True):
        if label not in remainder:
            return False
        remainder = remainder.replace(label, "", 1)
    return not remainder.strip("_")
