"""The names of classes that have a column each, without what programs and forms write around them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from yt8m.tables.meanings import is_label_word

_FEW_CLASSES = 12
_CHOICE = re.compile(r"([^\[\]]*)\[([^\[\]]*[^\[\]\d][^\[\]]*)\]")  # as in `What is shown? [cat]` of a form's answers
_ANSWER = re.compile(r"Answer\.(.+?)(?:\.(?:on|true))?")  # as Mechanical Turk names the boxes of a form


def describe_classes(names: Sequence[str]) -> str:
    """The columns of classes for the summary: all of them if they are few, so that one that is no class is seen."""
    if len(names) > _FEW_CLASSES:
        return f'a column for each class, from "{names[0]}" to "{names[-1]}"'
    return "a column for each class: " + ", ".join(f'"{name}"' for name in names)


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
