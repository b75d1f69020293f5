"""Columns that say of each row whether the video has its label, as in `clip 1, cat, no`: read as such, or refused.

The cells decide: a column whose cells say no in some rows denies their labels, unless all rows of a video, or all rows
of a label, say the same, so that it is a fact of the video or of the label.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, NoReturn

from yt8m.errors import UsageError
from yt8m.tables.columns.facts import Facts
from yt8m.tables.columns.roles import Roles
from yt8m.tables.sources.source import ROWS_AT_ONCE, Source
from yt8m.tables.words import normalized, word_set
from yt8m.tables.words.class_names import DOUBTS, JUDGED, NEGATION, SAID_NO, SAID_YES, is_nothing
from yt8m.tables.words.meanings import columns_flag
from yt8m.tables.words.numbers import with_point
from yt8m.tables.words.side_words import HARMLESS, OF_LABELS, REMARKS_ON_VIDEOS, VERDICTS, is_place
from yt8m.tables.words.time_columns import FRAME_RATES, divided, is_length_of_video, meaning_of_span

_MARK = re.compile(r"\W|[vo]")  # one sign beside empty cells
_PERCENT = re.compile(r"\d+([.,]\d+)?\s*%")
_CODE = re.compile(r"[^\w\s]{1,2}|[+-]?\d{1,3}(\.0*)?")
_MOST_WORDS = 10  # different texts of a column that says yes or no; remarks have more
_FEWEST_ZEROS = 0.01  # share of the rows; of other numbers a zero is one of many
_MANY = 0.1  # share of the rows, of numbers with fractions
_FEWEST_ALIKE = 5  # rows that repeat a video and say the same again
_FEWEST_OF_LABELS = 10
# Last words of names of lengths and files, as in BORIS's `Observation duration` and `Media file`.
_LENGTHS_AND_FILES = word_set("duration length file filename")
_DENYING_NAME = re.compile(r"(?:is_)?(?:deleted|removed|rejected|excluded|withdrawn|retracted|discarded)(?:_.+)?")
_WRONG = word_set("negative wrong incorrect absent invalid false no no_votes n_no downvotes disagree")
STATUS = "assignment_status"  # of Mechanical Turk, where a requester may have rejected an answer


def may_deny(facts: Facts) -> bool:
    """Whether some cells of a column say no, or 0, and others do not."""
    spellings = facts.spellings
    filled = spellings - {""}
    if len(spellings) < 2 or not filled:
        return False
    if _are_codes(spellings) or all(map(_PERCENT.fullmatch, filled)):
        return True
    if facts.is_numeric:
        return (
            _may_be_counts(facts)
            or _may_be_amounts(facts)
            or _may_be_scores(filled)
            or (len(filled) == 1 and filled <= SAID_YES)
        )
    if len(filled) == 1:
        (word,) = filled
        return "" in spellings and (word in SAID_YES | JUDGED or _MARK.fullmatch(word) is not None)
    is_denied = any(
        word in SAID_NO | DOUBTS or ((match := NEGATION.fullmatch(word)) and match[1] in filled) for word in filled
    )
    is_denied = is_denied or "none" in {str(value).strip().lower() for value in facts.counts}
    return len(filled) <= _MOST_WORDS and is_denied


def _are_codes(texts: set[str]) -> bool:
    """Whether there are two texts, each one letter or sign or a short number, such as P and A, or 1 and 2."""
    return len(texts) == 2 and all(len(text) == 1 or _CODE.fullmatch(text) for text in texts)


def _may_be_counts(facts: Facts) -> bool:
    """Whether whole numbers from 0, or 1 and -1, have enough zeros."""
    counts = {str(value).strip(): count for value, count in facts.counts.items() if not is_nothing(value)}
    if not all(re.fullmatch(r"[+-]?\d{1,15}(\.0*)?", text) for text in counts):
        return False
    numbers = {text: int(float(text)) for text in counts}
    denied = sum(count for text, count in counts.items() if numbers[text] <= 0)
    return min(numbers.values()) in (-1, 0) and max(numbers.values()) > 0 and denied >= _FEWEST_ZEROS * facts.rows


def _may_be_amounts(facts: Facts) -> bool:
    """Whether many of the numbers are 0 and the others larger, or many are negative and many positive."""
    numbers = Counter[float]()
    for value, count in facts.counts.items():
        try:
            numbers[with_point(str(value))] += 0 if is_nothing(value) else count
        except ValueError:
            return False
    denied = sum(count for number, count in numbers.items() if number <= 0)
    return not all(map(float.is_integer, numbers)) and _MANY <= denied / facts.rows <= 1 - _MANY


def _may_be_scores(texts: set[str]) -> bool:
    try:
        numbers = list(map(with_point, texts))
    except ValueError:
        return False
    return all(0 <= number <= 1 for number in numbers) and not all(number.is_integer() for number in numbers)


def _is_harmless(name: str) -> bool:
    """Whether the name of a column says that it tells something else than whether a label is right."""
    word = normalized(name)
    is_length_or_file = divided(word).bare.rpartition("_")[2] in _LENGTHS_AND_FILES
    is_place_in_picture = re.fullmatch(r"[xyzwh]\d?|[xyzwh]_?(?:min|max|start|end|px|pos)", word)
    is_time = meaning_of_span(name) or is_length_of_video(word) or word in FRAME_RATES
    is_time = is_time or not {"time", "timestamp", "date"}.isdisjoint(word.split("_"))
    return bool(word in HARMLESS or is_place(word) or is_time or is_place_in_picture or is_length_or_file)


class _Scan:
    """What the rows of one column say of each video and of each label."""

    def __init__(self) -> None:
        self._of_video: dict[Any, str] = {}
        self._of_label: dict[Any, str] = {}
        self._next: dict[Any, int] = {}  # of each video, if the cells number its rows
        self._repeats = 0
        self._repeated = set[Any]()
        self._rows = 0
        self._differs_in_video = self._differs_in_label = False
        self._is_index, self._largest = True, 0

    def add(self, video: str, label: Any, cell: Any) -> None:
        """Adds a row."""
        text = "" if is_nothing(cell) else str(cell).strip().lower()
        if video in self._of_video:
            self._repeats += 1
            self._repeated.add(video)
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
        is_plain = len(self._repeated) == len(self._of_video) and not set(self._of_video.values()) & (
            SAID_YES | SAID_NO
        )
        is_of_video = not self._differs_in_video and (self._repeats >= _FEWEST_ALIKE or is_plain)
        repeats = self._rows - len(self._of_label)
        is_of_label = not self._differs_in_label and len(self._of_label) > 2 and repeats >= _FEWEST_OF_LABELS
        return not (is_of_video or is_of_label or (self._is_index and self._largest > 1))


def _may_be_denial(name: str, facts: Facts) -> bool:
    """Whether a column may deny labels by its cells, or by its name where some cells are empty."""
    is_partly_empty = "" in facts.spellings and len(facts.spellings) > 1
    return may_deny(facts) or (is_partly_empty and _DENYING_NAME.fullmatch(normalized(name)) is not None)


def refuse_denials(source: Source, roles: Roles, facts: Mapping[str, Facts]) -> None:
    """Refuses a column that may say which rows of a table with a row for each label are right."""
    others = [name for name in roles.unused if name in facts and name not in roles.set_aside]
    names = [name for name in others if not _is_harmless(name) and _may_be_denial(name, facts[name])]
    scans = {name: _Scan() for name in names}
    for rows in source.batches(ROWS_AT_ONCE, 0, [roles.id, *roles.labels, *names]) if names else ():
        labels = list(zip(*(map(str, rows.cells[name]) for name in roles.labels), strict=True))
        for name, scan in scans.items():
            for video, label, cell in zip(rows.cells[roles.id], labels, rows.cells[name], strict=True):
                scan.add(str(video), label, cell)
    for name, scan in scans.items():
        if scan.denies:
            _refuse(source, name, facts[name], "several rows for a video, and ")


def refuse_named_denials(source: Source, roles: Roles, facts: Mapping[str, Facts]) -> None:
    """Refuses a column whose name and cells say that the labels of some rows are denied, whatever the ids are."""
    if roles.value and _says_wrong(roles.value):
        raise UsageError(
            f'{source.path}: "{roles.value}" says yes of the labels that are wrong, and --columns=present=COLUMN names '
            "a column that says yes of those that are right. Delete the rows of wrong labels."
        )
    if roles.value in facts and "" in (spellings := facts[roles.value].spellings) and spellings & SAID_NO:
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
        filled = facts[name].spellings - {""}
        is_verdict = (
            normalized(name) in OF_LABELS | (VERDICTS - REMARKS_ON_VIDEOS)
            or _DENYING_NAME.fullmatch(normalized(name))
            or (filled <= SAID_YES | SAID_NO | DOUBTS and not filled.isdisjoint(JUDGED))
        )
        if roles.labels and is_verdict and _may_be_denial(name, facts[name]):
            _refuse(source, name, facts[name], "")


def refuse_ids_with_classes(source: Source, roles: Roles, facts: Mapping[str, Facts]) -> None:
    """Refuses ids such as `ID_v0_cat` beside 0 and 1: each video has a row for each class, whose name ends the id."""
    label = roles.labels[0] if len(roles.labels) == 1 else ""
    if label not in facts or not facts[label].spellings <= {"0", "0.0", "1", "1.0"} or len(facts[label].spellings) < 2:
        return
    classes: dict[str, set[str]] = {}
    for rows in source.batches(ROWS_AT_ONCE, 0, [roles.id]):
        for cell in rows.cells[roles.id]:
            video, sign, name = str(cell).rpartition("_")
            if not sign or not video or not re.search(r"[^\W\d_]", name):
                return
            classes.setdefault(video, set()).add(name)
    names = next(iter(classes.values()), set())
    if len(names) < 2 or len(classes) < 2 or any(others != names for others in classes.values()):
        return
    video, name = next(iter(classes)), min(names)
    raise UsageError(
        f'{source.path}: each id of "{roles.id}" ends in one of {len(names)} names, such as '
        f'{f"{video}_{name}"[:60]!r}, and "{label}" is 0 or 1. Either it says whether {video[:50]!r} has the class '
        f"{name!r}: then write the video and the class into columns of their own, id and label, and choose "
        f"{columns_flag('present', [label])}; or each id is a video, of a class 0 or 1: "
        f"{columns_flag('labels', [label])}."
    )


def _refuse(source: Source, name: str, facts: Facts, finding: str) -> NoReturn:
    """Raises the error for a column that may deny labels."""
    texts = sorted(text or "an empty cell" for text in facts.spellings)
    listed = " and ".join(text if text.startswith("an ") else repr(text[:20]) for text in texts[:3])
    remedy = ways(name)
    if _may_be_scores(facts.spellings - {""}) or any("%" in text for text in facts.spellings):
        remedy = "Only some rows count: write 1 or 0 in place of the scores"
    raise UsageError(
        f'{source.path} has {finding}a column "{name}" that may say which labels are right, with {listed}. {remedy}; '
        f"or it says something else, and all labels count: {columns_flag('unused', [name])}."
    )


def ways(name: str) -> str:
    """What to do if a column says which labels are right, for a message."""
    if _says_wrong(name):
        return "Either some labels are wrong: then delete their rows"
    return f"Either only the rows whose label is right count: {columns_flag('present', [name])}"


def _says_wrong(name: str) -> bool:
    """Whether a column says yes of the labels that are wrong, as `deleted` does."""
    word = normalized(name)
    return _DENYING_NAME.fullmatch(word) is not None or word.removeprefix("is_") in _WRONG


def unclear_answer(source: Source, name: str, cell: Any, row: str) -> UsageError:
    """The error for a cell of a column of yes and no that says neither."""
    return UsageError(
        f'{source.path}, {row}: the cell of "{name}" is {str(cell)[:40]!r}; expected yes or no, as 1 and 0, or a count.'
    )
