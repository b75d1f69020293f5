"""Columns beside those of labels: `fold`, `is_train`, `Consent` beside classes, corrected labels, merged cells.

A column of 0 and 1 is doubtful if its name usually says something else, if it says yes of every video, if it is written
otherwise than most, or if it alone breaks a rule that the others keep: that each video has one class.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from yt8m.errors import UsageError
from yt8m.tables.columns import class_columns
from yt8m.tables.columns.facts import Facts
from yt8m.tables.columns.table_columns import TableColumns
from yt8m.tables.sources.source import Source
from yt8m.tables.words import normalized, word_set
from yt8m.tables.words.class_names import TRUE_WORDS, is_nothing
from yt8m.tables.words.meanings import SPECIES_NAMES, columns_flag, is_label_word
from yt8m.tables.words.side_words import (
    MARKED_THINGS,
    OF_OTHERS,
    OTHER_READINGS,
    REVISED,
    SIDE_FACTS,
    SURE_REMARKS,
    is_id_of_titled,
    is_of_observation,
    is_place,
    without_number,
)

if TYPE_CHECKING:
    from yt8m.tables.columns.roles import Roles

_SETS = re.compile(
    r"(?:train|training|val|valid|validation|test|testing|eval|dev|holdout|hold_out)(?:_(?:set|split|flag|data))?"
)
_PREFIX = re.compile(r"(is|in|has|was)_.+")
_OTHER_ENDING = re.compile(
    r".+_(no|num|number|weight|flag|status|ok|count|round|session|trial|visit|scope|hour)|(n|num|nr|number)_.+"
)
_FEWEST_ROWS = 5  # of fewer videos, all may show a class
_FEWEST_OF_ONE = 3  # columns of which each video has one
_FIRST_ROWS = 2000
_MOST_SHOWN = 4
# How names of columns say that they have further labels of a video.
_FURTHER = word_set("second secondary 2nd third tertiary 3rd fourth 4th also additional extra more further")
_NAME_IN_FIELDS = re.compile(r"(?:fields|properties)\.(?:name|title|file|filename|video)", re.IGNORECASE)
_RANKS = word_set(
    "species subspecies genus family order class phylum kingdom issf spuh slash hybrid form intergrade domestic"
) | {""}
_FEWEST_SHARED = 2  # names of the same classes in a column that is not used
_FEWEST_MERGED = 2  # labels with empty cells below them that are merged cells


def refuse_side_columns(
    source: Source, names: Sequence[str], facts: Mapping[str, Facts], known_names: Collection[str]
) -> None:
    """Raises `UsageError` if some of the columns of classes may be no classes.

    Args:
      known_names: the names of the vocabulary, which are classes.
    """
    reasons = {
        name: reason for name, reason in _doubts(source, names, facts).items() if name.strip() not in known_names
    }
    if not reasons:
        return
    listed = ", ".join(f'"{name}" ({reason})' for name, reason in list(reasons.items())[:_MOST_SHOWN])
    classes = [name for name in names if name not in reasons]
    beside = ", ".join(classes[:_MOST_SHOWN]) + (", ..." if len(classes) > _MOST_SHOWN else "")
    subject, verdict, other = (
        ("a column", "it is no class", "it is a class too")
        if len(reasons) == 1
        else ("columns", "they are no classes", "all are classes")
    )
    raise UsageError(
        f"{source.path}: {subject} of yes and no{' beside ' if beside else ''}{beside} may be no class: {listed}. "
        f"Choose by {columns_flag('unused', list(reasons))} ({verdict}), or by --columns=unused= ({other})."
    )


def _doubts(source: Source, names: Sequence[str], facts: Mapping[str, Facts]) -> dict[str, str]:
    """{column: why it may be no class}."""
    breaking = _breaking_columns(source, names)
    if breaking is None:
        return {}
    reasons = dict.fromkeys(breaking, "without it, each video has one class")
    reasons |= dict.fromkeys(_written_otherwise(names, facts), "it is written otherwise")
    start, count = Counter(map(class_columns.beginning, names)).most_common(1)[0]
    if start and count > 1:
        others = [name for name in names if class_columns.beginning(name) != start]
        reasons |= dict.fromkeys(others, f"it does not begin with {start}")
    if not all(_PREFIX.fullmatch(normalized(name)) for name in names):
        reasons |= {name: "its name" for name in names if _PREFIX.fullmatch(normalized(name))}
    reasons |= {name: "its name" for name in names if says_something_else(normalized(name))}
    return reasons | {name: "it says yes of every video" for name in names if is_constant(facts[name])}


def says_something_else(word: str) -> bool:
    """Whether a name, as `normalized` writes it, is usually that of no class."""
    base = without_number(word)
    is_remark = base in SIDE_FACTS or not SURE_REMARKS.isdisjoint(word.split("_"))
    return is_remark or is_place(word) or any(pattern.fullmatch(base) for pattern in (_SETS, _OTHER_ENDING))


def is_constant(facts: Facts) -> bool:
    """Whether a column says yes of every one of at least a few videos."""
    return facts.rows >= _FEWEST_ROWS and len(facts.spellings) == 1


def _written_otherwise(names: Sequence[str], facts: Mapping[str, Facts]) -> list[str]:
    """The columns whose word for yes is another than that of most columns."""
    spellings = {name: {word.removesuffix(".0") for word in facts[name].spellings & TRUE_WORDS} for name in names}
    counts = Counter(word for marks in spellings.values() for word in marks)
    word, count = counts.most_common(1)[0]
    return [name for name in names if word not in spellings[name]] if 2 * count > len(names) else []


def _breaking_columns(source: Source, names: Sequence[str]) -> list[str] | None:
    """The only column without which each of the first videos has just one class; None if each has one with all."""
    if len(names) < _FEWEST_OF_ONE:
        return []
    for rows in source.batches(_FIRST_ROWS, 0, names):
        marks = [[str(cell).strip().lower() in TRUE_WORDS for cell in rows.cells[name]] for name in names]
        sums = [sum(marked) for marked in zip(*marks, strict=True)]
        if len(sums) < _FEWEST_ROWS or set(sums) == {1}:
            return None if set(sums) == {1} and len(sums) >= _FEWEST_ROWS else []
        breaking = [
            name
            for name, column in zip(names, marks, strict=True)
            if all(total - mark == 1 for total, mark in zip(sums, column, strict=True))
        ]
        return breaking if len(breaking) == 1 and len(names) > _FEWEST_OF_ONE else []
    return []


def _is_flag_beside(name: str, labels: str, facts: Mapping[str, Facts]) -> bool:
    """Whether a column says yes or no, and that of the labels says more."""
    return {name, labels} <= facts.keys() and facts[name].is_binary and not facts[labels].is_binary


def is_revision(name: str, labels: str, facts: Mapping[str, Facts]) -> bool:
    """Whether a column has corrected labels by its name, as `new_label` has."""
    terms = set(normalized(name).split("_"))
    if _is_flag_beside(name, labels, facts):
        return False  # as `is_label_correct` does
    return not terms.isdisjoint(REVISED) and any(map(is_label_word, terms))


def is_other_reading(name: str, labels: str, facts: Mapping[str, Facts]) -> bool:
    """Whether a column may have other labels than the one beside it by its name, as `true_label` may."""
    word = normalized(name)
    terms = set(word.split("_"))
    if not {name, labels} <= facts.keys() or _is_flag_beside(name, labels, facts):
        return False
    if not terms.isdisjoint(OF_OTHERS) and any(map(is_label_word, terms)):
        return True
    return word in OTHER_READINGS and facts[name].is_numeric == facts[labels].is_numeric  # else scores


def filled_candidates(table: TableColumns, candidates: Sequence[str]) -> list[str]:
    """The columns with labels, of those whose names say so.

    Raises `UsageError` if all are empty, but another column has what people marked in a video.
    """
    filled = [name for name in candidates if not table.is_empty(name)]
    if candidates and not filled:
        marks = [name for name in table.unused() if normalized(name) in MARKED_THINGS and name not in candidates]
        if marks:
            raise UsageError(
                f'{table.path}: all cells of "{candidates[0]}" are empty, but "{marks[0]}" is not. If these marks have '
                'the labels, write {"id": ..., "labels": [...]} for each video; if no video has a label, choose '
                f"{columns_flag('labels', candidates[:1])}."
            )
    return filled or list(candidates)


def species_beside_ranks(table: TableColumns, candidates: Sequence[str]) -> list[str]:
    """The columns with labels; beside ranks such as `species` and `hybrid`, as eBird has them, the names of species."""
    ranks = [name for name in candidates if table.facts_of(name).filled and table.facts_of(name).spellings <= _RANKS]
    species = [name for name in table.names if normalized(name) in SPECIES_NAMES and table.is_free(name)]
    species = [name for name in species if len(table.facts_of(name).counts) > 1]
    others = [name for name in candidates if name not in ranks]
    return others or species[:1] if ranks and species else list(candidates)


def species_columns(table: TableColumns, may_have_labels: Callable[[str], bool]) -> list[str]:
    """The columns with names of species, as exports of camera traps have them; none if another may have the labels."""
    species = [name for name in table.names if normalized(name) in SPECIES_NAMES and table.is_free(name)]
    species = [name for name in species if len(table.facts_of(name).counts) > 1]
    others = [name for name in table.names if name not in species and may_have_labels(name)]
    others = [name for name in others if len(table.facts_of(name).counts) > 1]
    return species if all(is_of_observation(normalized(name)) for name in others) else []


def refuse_titled(table: TableColumns, name: str) -> None:
    """Refuses titles beside a column such as `Evidence ID`, which may name the videos as well."""
    for other in table.names:
        facts = table.facts.get(other)
        is_id = facts and is_id_of_titled(normalized(other)) and table.is_free(other)
        if facts and is_id and facts.is_unique and not facts.is_counter:
            raise UsageError(
                f'{table.path}: "{name}" may name the videos, or "{other}": each cell of both differs from the '
                f"others. Choose by {columns_flag('id', [name])} or {columns_flag('id', [other])}."
            )


def refuse_records(table: TableColumns, first: str) -> None:
    """Refuses ids of records beside names that people gave in its fields, as in answers of Airtable and Notion."""
    for other in table.names if normalized(first) == "id" else ():
        facts = table.facts.get(other)
        is_name = _NAME_IN_FIELDS.fullmatch(other) and table.is_free(other)
        if facts and is_name and facts.is_unique and not facts.has_lists:
            raise UsageError(
                f'{table.path}: "{first}" has the ids of records, and "{other}" names such as '
                f"{str(facts.filled[0])[:40]!r}; either may be those of the videos. "
                f"Choose by {columns_flag('id', [first])} or {columns_flag('id', [other])}."
            )


def refuse_lost_labels(
    source: Source, labels: Sequence[str], facts: Mapping[str, Facts], *, may_be_merged: bool
) -> None:
    """Raises `UsageError` if the only column of labels does not have all labels of its table."""
    if len(labels) == 1 and labels[0] in facts:
        _refuse_unnamed_labels(source, labels[0], facts)
        if may_be_merged:
            _refuse_merged_cells(source.path, labels[0], facts[labels[0]])


def refuse_unread_labels(
    path: str, roles: Roles, facts: Mapping[str, Facts], names_in: Callable[[Any], Sequence[str]]
) -> None:
    """Raises `UsageError` if a column that is not used, such as `label_2nd`, has further labels by its name and cells.

    Args:
      names_in: the names of the labels in a cell.
    """
    if len(roles.labels) != 1 or roles.labels[0] not in facts or facts[roles.labels[0]].is_binary:
        return
    labels = facts[roles.labels[0]]
    classes = {name for cell in labels.filled for name in names_in(cell)}
    for column in roles.unused:
        may_have = column in facts and column not in roles.set_aside
        values = facts[column].filled if may_have and not _FURTHER.isdisjoint(normalized(column).split("_")) else []
        if len(values) < _FEWEST_SHARED or facts[column].is_numeric or facts[column].counts == labels.counts:
            continue
        if all(isinstance(value, str) and classes.issuperset(names_in(value)) for value in values):
            raise UsageError(
                f'{path}: "{roles.labels[0]}" has the labels, and "{column}" has names of the same classes, such as '
                f"{values[0][:40]!r}. Take both by {columns_flag('labels', [roles.labels[0], column])}, or leave it "
                f"out by {columns_flag('unused', [column])}."
            )


def _refuse_merged_cells(path: str, name: str, facts: Facts) -> None:
    """Raises `UsageError` if each label stands once, with empty cells below it, as spreadsheets save merged cells."""
    empty = facts.counts[""] + facts.counts[None]
    labels = {value: count for value, count in facts.counts.items() if not is_nothing(value)}
    starts_with_label = bool(facts.counts) and not is_nothing(next(iter(facts.counts)))
    if len(labels) >= _FEWEST_MERGED and set(labels.values()) == {1} and empty > len(labels) and starts_with_label:
        raise UsageError(
            f'{path}: each label of "{name}" stands in one row, and {empty} cells are empty, as where cells were '
            "merged. If a label belongs to the rows below it too, write it into each of them; if these videos have no "
            "label, write none into their cells."
        )


def _refuse_unnamed_labels(source: Source, name: str, facts: Mapping[str, Facts]) -> None:
    """Raises `UsageError` if a column without a name has labels too, so that they would be lost."""
    find = getattr(source, "cells_without_name", None)
    if find is None or name not in facts:
        return
    labels = {str(value).strip() for value in facts[name].filled}
    for place, cells in find().items():
        shared = sorted(labels.intersection(map(str.strip, cells)))
        if shared:
            raise UsageError(
                f"{source.path}: column {place} has no name, but labels such as {shared[0][:60]!r}. Write names above "
                "all columns of labels, such as label_1 and label_2, or join the labels to one text such as cat;dog."
            )
