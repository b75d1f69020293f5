"""Columns of labels that say less than their table: empty ones, merged cells, and labels in columns without a name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from yt8m.errors import UsageError
from yt8m.tables.columns.facts import Facts
from yt8m.tables.columns.table_columns import TableColumns
from yt8m.tables.sources.source import Source
from yt8m.tables.words.class_names import is_nothing
from yt8m.tables.words.meanings import columns_flag, is_label_word, normalized, words

_MARKS = frozenset(words("instances objects regions annotations detections segments shapes boxes results predictions"))
# How names of columns say that their labels are the corrected ones of another column.
_REVISED = frozenset(words("corrected correct new final clean cleaned verified reviewed fixed revised updated gold v2"))
# How they say that their labels are those of other people, or of a model, which may differ.
_OF_OTHERS = frozenset(
    words(
        "true given gt truth consensus original orig noisy predicted prediction pred initial majority adjudicated "
        "old auto machine suggested"
    )
)
_OTHER_READINGS = frozenset(
    words("ground_truth groundtruth gt truth corrected correction prediction predicted consensus pred y_true y_pred")
)
_FEWEST = 2  # labels with empty cells below them that are merged cells
_ROWS_AT_ONCE = 8192


def _is_flag_beside(name: str, labels: str, facts: Mapping[str, Facts]) -> bool:
    """Whether a column says yes or no, and that of the labels says more."""
    return {name, labels} <= facts.keys() and facts[name].is_binary and not facts[labels].is_binary


def is_revision(name: str, labels: str, facts: Mapping[str, Facts]) -> bool:
    """Whether a column has corrected labels by its name, as `new_label` has."""
    terms = set(normalized(name).split("_"))
    if _is_flag_beside(name, labels, facts):
        return False  # as `is_label_correct` does
    return not terms.isdisjoint(_REVISED) and any(map(is_label_word, terms))


def is_other_reading(name: str, labels: str, facts: Mapping[str, Facts]) -> bool:
    """Whether a column may have other labels than the one beside it by its name, as `true_label` may."""
    word = normalized(name)
    terms = set(word.split("_"))
    if not {name, labels} <= facts.keys() or _is_flag_beside(name, labels, facts):
        return False
    if not terms.isdisjoint(_OF_OTHERS) and any(map(is_label_word, terms)):
        return True
    return word in _OTHER_READINGS and facts[name].is_numeric == facts[labels].is_numeric  # else scores


def filled_candidates(table: TableColumns, candidates: Sequence[str]) -> list[str]:
    """The columns with labels, of those whose names say so.

    Raises `UsageError` if all are empty, but another column has what people marked in a video.
    """
    filled = [name for name in candidates if not table.is_empty(name)]
    if candidates and not filled:
        marks = [name for name in table.unused() if normalized(name) in _MARKS and name not in candidates]
        if marks:
            raise UsageError(
                f'{table.path}: all cells of "{candidates[0]}" are empty, but "{marks[0]}" is not. If these marks have '
                'the labels, write {"id": ..., "labels": [...]} for each video; if no video has a label, choose '
                f"{columns_flag('labels', candidates[:1])}."
            )
    return filled or list(candidates)


def refuse_lost_labels(
    source: Source, labels: Sequence[str], facts: Mapping[str, Facts], *, may_be_merged: bool
) -> None:
    """Raises `UsageError` if the only column of labels does not have all labels of its table."""
    if len(labels) == 1 and labels[0] in facts:
        _refuse_unnamed_labels(source, labels[0], facts)
        if may_be_merged:
            _refuse_merged_cells(source.path, labels[0], facts[labels[0]])


def _refuse_merged_cells(path: str, name: str, facts: Facts) -> None:
    """Raises `UsageError` if each label stands once, with empty cells below it, as spreadsheets save merged cells."""
    empty = facts.counts[""] + facts.counts[None]
    labels = {value: count for value, count in facts.counts.items() if not is_nothing(value)}
    starts_with_label = bool(facts.counts) and not is_nothing(next(iter(facts.counts)))
    if len(labels) >= _FEWEST and set(labels.values()) == {1} and empty > len(labels) and starts_with_label:
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
