"""Columns that say of each row whether the video has its label, as in `clip 1, cat, no`: read as such, or refused.

The cells decide: a column whose cells say no in some rows denies their labels, unless all rows of a video, or all rows
of a label, say the same, so that it is a fact of the video or of the label.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NoReturn

from yt8m.errors import UsageError
from yt8m.tables.class_names import FALSE_WORDS, TRUE_WORDS, is_nothing
from yt8m.tables.facts import Facts
from yt8m.tables.meanings import columns_flag, normalized, words
from yt8m.tables.roles import Roles
from yt8m.tables.side_columns import is_place
from yt8m.tables.sources import Source
from yt8m.tables.time_columns import (
    FRAME_RATES,
    divided,
    is_duration,
    is_length_of_video,
    meaning_in_spans,
    meaning_of_time,
)

# What people write for a label that a video has, and for one that it has not, beside 1 and 0, yes and no.
_YES = TRUE_WORDS | frozenset(
    words(
        "on + +1 ok accept accepted approve approved confirm confirmed correct right agree agreed valid pass passed "
        "found good visible seen keep kept hit tp relevant sure certain likely detected observed exists included"
    )
)
_NO = FALSE_WORDS | frozenset(
    words(
        "off - \u2212 reject rejected deny denied incorrect wrong disagree disagreed invalid fail failed missing miss "
        "missed bad invisible unseen drop dropped fp irrelevant unlikely unconfirmed undetected unobserved excluded "
        "deleted removed"
    )
)
_DOUBTS = frozenset(words("unsure uncertain maybe perhaps possibly probably doubtful unclear unknown"))
_NEGATION = re.compile(r"(?:not?|un|in|im|ir|non|dis)[ _-]?(.+)")  # as in `unseen` beside `seen`
_MARK = re.compile(r"\W|[vo]")  # one sign beside empty cells
_MOST_WORDS = 10  # different texts of a column that says yes or no; remarks have more
_FEWEST_ZEROS = 0.01  # share of the rows; of other numbers a zero is one of many
_FEWEST_ALIKE = 5  # rows that repeat a video and say the same again
_FEWEST_OF_LABELS = 10
_ROWS_AT_ONCE = 8192
# Columns of numbers and facts of a row that say nothing of whether its label is right: boxes, numbers of rows, and
# facts of a box in Open Images, Pascal VOC and COCO.
_HARMLESS = frozenset(
    words(
        "x y w h z x1 x2 y1 y2 xmin xmax ymin ymax x_min x_max y_min y_max left right top bottom width height bbox "
        "box area cx cy xc yc x_center y_center rotation angle lat lon latitude longitude hour minute second month "
        "year day is_occluded is_truncated is_group_of is_depiction is_inside occluded truncated difficult iscrowd "
        "is_crowd crowd index idx rank order position pos line row frame frames instance track page level depth"
    )
)
# Columns about the label of a row, whatever the ids: each video of a table may have been asked about one label.
_OF_LABELS = frozenset(
    words(
        "detected observed visible exists polarity relevant seen found occurs occurred heard shown appears absent "
        "negative is_negative rejected is_rejected wrong is_wrong incorrect is_incorrect is_visible is_observed "
        "is_detected"
    )
)
STATUS = "assignment_status"  # of Mechanical Turk, where a requester may have rejected an answer


def says_yes(cell: Any) -> bool | None:
    """Whether a cell says that the video has the label of the row; None if it says neither."""
    word = "" if is_nothing(cell) else str(cell).strip().lower()
    if word in _DOUBTS:
        return None
    is_negation = (match := _NEGATION.fullmatch(word)) is not None and match[1] in _YES
    if word in _YES or word in _NO or not word or is_negation:
        return word in _YES
    return int(float(word)) > 0 if re.fullmatch(r"[+-]?\d{1,15}(\.0*)?", word) else None


def may_deny(facts: Facts) -> bool:
    """Whether some cells of a column say no, or 0, and others do not."""
    spellings = facts.spellings
    filled = spellings - {""}
    if len(spellings) < 2 or not filled:
        return False
    if facts.is_numeric:
        return _may_be_counts(facts) or _may_be_scores(filled) or (len(filled) == 1 and filled <= _YES)
    if len(filled) == 1:
        (word,) = filled
        return "" in spellings and (word in _YES or _MARK.fullmatch(word) is not None)
    is_denied = any(
        word in _NO | _DOUBTS or ((match := _NEGATION.fullmatch(word)) and match[1] in filled) for word in filled
    )
    return len(filled) <= _MOST_WORDS and is_denied


def _may_be_counts(facts: Facts) -> bool:
    """Whether whole numbers from 0, or 1 and -1, have enough zeros."""
    counts = {str(value).strip(): count for value, count in facts.counts.items() if not is_nothing(value)}
    if not all(re.fullmatch(r"[+-]?\d{1,15}(\.0*)?", text) for text in counts):
        return False
    numbers = {text: int(float(text)) for text in counts}
    denied = sum(count for text, count in counts.items() if numbers[text] <= 0)
    return min(numbers.values()) in (-1, 0) and max(numbers.values()) > 0 and denied >= _FEWEST_ZEROS * facts.rows


def _may_be_scores(texts: set[str]) -> bool:
    try:
        numbers = [float(text.replace(",", ".")) for text in texts]
    except ValueError:
        return False
    return all(0 <= number <= 1 for number in numbers) and not all(number.is_integer() for number in numbers)


def _is_harmless(name: str) -> bool:
    """Whether the name of a column says that it tells something else than whether a label is right."""
    word = normalized(name)
    is_time = meaning_of_time(word) or meaning_in_spans(word) or is_duration(word) or is_length_of_video(word)
    is_time = is_time or word in FRAME_RATES
    return bool(word in _HARMLESS or is_place(word) or is_time or divided(word).unit)


class _Scan:
    """What the rows of one column say of each video and of each label."""

    def __init__(self) -> None:
        self._of_video: dict[Any, str] = {}
        self._of_label: dict[Any, str] = {}
        self._next: dict[Any, int] = {}  # of each video, if the cells number its rows
        self._repeats = 0
        self._rows = 0
        self._differs_in_video = self._differs_in_label = False
        self._is_index, self._largest = True, 0

    def add(self, video: str, label: Any, cell: Any) -> None:
        """Adds a row."""
        text = "" if is_nothing(cell) else str(cell).strip().lower()
        self._repeats += video in self._of_video
        self._rows += 1
        self._differs_in_video |= self._of_video.setdefault(video, text) != text
        self._differs_in_label |= self._of_label.setdefault(label, text) != text
        if self._is_index:
            number = self._next.get(video, 0)
            self._is_index = text == str(number)
            self._next[video], self._largest = number + 1, max(self._largest, number)

    @property
    def denies(self) -> bool:
        """Whether the column may deny labels."""
        is_of_video = not self._differs_in_video and self._repeats >= _FEWEST_ALIKE
        repeats = self._rows - len(self._of_label)
        is_of_label = not self._differs_in_label and len(self._of_label) > 2 and repeats >= _FEWEST_OF_LABELS
        return not (is_of_video or is_of_label or (self._is_index and self._largest > 1))


def refuse_denials(source: Source, roles: Roles, facts: Mapping[str, Facts]) -> None:
    """Refuses a column that may say which rows of a table with a row for each label are right."""
    others = [name for name in roles.unused if name in facts and name not in roles.set_aside]
    names = [name for name in others if not _is_harmless(name) and may_deny(facts[name])]
    scans = {name: _Scan() for name in names}
    for rows in source.batches(_ROWS_AT_ONCE, 0, [roles.id, *roles.labels, *names]) if names else ():
        labels = list(zip(*(map(str, rows.cells[name]) for name in roles.labels), strict=True))
        for name, scan in scans.items():
            for video, label, cell in zip(rows.cells[roles.id], labels, rows.cells[name], strict=True):
                scan.add(str(video), label, cell)
    for name, scan in scans.items():
        if scan.denies:
            _refuse(source, name, facts[name], "several rows for a video, and ")


def refuse_named_denials(source: Source, roles: Roles, facts: Mapping[str, Facts]) -> None:
    """Refuses a column whose name and cells say that the labels of some rows are denied, whatever the ids are."""
    if roles.value in facts and "" in (spellings := facts[roles.value].spellings) and spellings & _NO:
        raise UsageError(
            f'{source.path}: of "{roles.value}", some cells say yes or no and others are empty, which may mean no or '
            "not known. Write yes or no into each cell."
        )
    for name in roles.unused:
        if name not in facts or name in roles.set_aside:
            continue
        if normalized(name) == STATUS and facts[name].spellings & {"rejected"}:
            raise UsageError(
                f'{source.path}: some answers were rejected, by "{name}". Delete these rows, or take them too by '
                f"{columns_flag('unused', [name])}."
            )
        if roles.labels and normalized(name) in _OF_LABELS and may_deny(facts[name]):
            _refuse(source, name, facts[name], "")


def _refuse(source: Source, name: str, facts: Facts, finding: str) -> NoReturn:
    """Raises the error for a column that may deny labels."""
    texts = sorted(text or "an empty cell" for text in facts.spellings)
    listed = " and ".join(text if text.startswith("an ") else repr(text[:20]) for text in texts[:3])
    remedy = f"only the rows whose label is right count ({columns_flag('present', [name])})"
    if _may_be_scores(facts.spellings - {""}):
        remedy = "only some rows count (write 1 or 0 in place of the scores)"
    raise UsageError(
        f'{source.path} has {finding}a column "{name}" with {listed}. Either {remedy}, or it says something else, and '
        f"all labels count ({columns_flag('unused', [name])})."
    )


def unclear_answer(source: Source, name: str, cell: Any, row: str) -> UsageError:
    """The error for a cell of a column of yes and no that says neither."""
    return UsageError(
        f'{source.path}, {row}: the cell of "{name}" is {str(cell)[:40]!r}; expected yes or no, as 1 and 0, or a count.'
    )
