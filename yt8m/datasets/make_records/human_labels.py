"""Labels that people gave, and their decisions on labels that may be wrong or missing.

`yt8m make-records --labels` replaces labels of the table by those from another table or from Label Studio's JSON
export (https://labelstud.io/guide/export): a list of tasks with data and annotations. Several people may have answered
a task. A class is a label if more than half of them chose it. If one person made several annotations, the one that was
changed last counts.

`yt8m make-records --corrections` applies the decisions of a table:

    rank,video,class,kind,chance,decision
    1,clip 017,dog,wrong,0.998,yes
    2,clip 203,cat,missing,0.991,no

`yt8m audit` writes such a table with an empty column `decision`. `yes` removes a wrong label or adds a missing label.
`no` or an empty cell changes nothing. Only the columns video, class, kind and decision are read, in any order, and, for
decisions on spans of time, start and end. The cells may be separated by semicolons or tabs, as spreadsheets write them
in some countries.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import sys
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from yt8m import storage
from yt8m.datasets.make_records.answer_tables import read_label_table
from yt8m.datasets.make_records.classes import CLASS_NUMBER, Classes
from yt8m.datasets.make_records.rows import Labels
from yt8m.errors import RunError, UsageError, refusing, suggestion
from yt8m.eval_util.arrays import Ints64
from yt8m.records.prediction_files import write_table
from yt8m.records.shards import id_bytes, id_text
from yt8m.tables.exports.label_studio import Answer, choices_by_person, combine_choices
from yt8m.tables.reading import Row, open_columns
from yt8m.tables.shapes.own_tables import ANSWERS_HEADER
from yt8m.tables.sources import encodings
from yt8m.tables.sources.source import Rows, Table
from yt8m.tables.words import normalized, time_columns
from yt8m.tables.words.class_names import FALSE_WORDS, TRUE_WORDS, clean_name, is_nothing
from yt8m.tables.words.spreadsheets import spreadsheet_text, text_of_spreadsheet
from yt8m.tables.words.times import is_empty, parse_time

ANSWERS = "answers.csv"  # the file in --out with the joint answer on each video of --labels
# The name of the control in Label Studio whose choices are classes; `yt8m select` writes its tasks for this name.
CONTROL = "classes"
WRONG, MISSING = "wrong", "missing"  # the kinds of decisions
COLUMNS = ("video", "class", "kind", "decision")  # the columns that a table of decisions must have
TIMES = ("start", "end")  # further columns of a table of decisions on spans
ADDED, REMOVED = "labels added", "labels removed"  # names of two counts in `manifest_entry`
# What a decision with times cannot be applied to, and what to do.
_ROWS_OF_WHOLE = "the rows of the table are whole videos; add --rows=spans"
_START = 256  # bytes that show whether a file may be JSON
_TASK_KEYS = frozenset(["data", "annotations"])  # of tasks of Label Studio
# {cell of the column `decision`, in lower case: whether the label really is wrong or missing, None if undecided}
_DECISIONS = {"": None} | dict.fromkeys(TRUE_WORDS, True) | dict.fromkeys(FALSE_WORDS, False)


class Decision(NamedTuple):
    """One row of a table of decisions.

    Attributes:
      is_right: whether the label really is wrong or missing; None if nobody has decided.
      span: the start and the end, in seconds, of the part of the video that it is about; None for the whole video.
    """

    line: int
    video: bytes
    label: str
    kind: str
    is_right: bool | None
    span: tuple[float, float] | None = None

    @property
    def says_present(self) -> bool:
        """Whether the decision says that the video shows the class: a label is missing, or is not wrong.

        Meaningless if nobody has decided.
        """
        return (self.kind == MISSING) == self.is_right

    def shares_time_with(self, other: Decision) -> bool:
        """Whether both are about a part of the same time."""
        if self.span is None or other.span is None:
            return True
        return max(self.span[0], other.span[0]) < min(self.span[1], other.span[1])


class CorrectedLabels(NamedTuple):
    """The labels of a batch of rows after the decisions.

    Attributes:
      added: int64, the row in the batch of each label that was added.
      removed: int64, the row in the batch of each label that was removed.
    """

    labels: Labels
    added: Ints64
    removed: Ints64


def read_decisions(path: str) -> list[Decision]:
    """Reads all rows of a table of decisions, a CSV file with at least the columns `COLUMNS`."""
    storage.refuse_missing(path, "corrections", "`yt8m audit` writes a decisions.csv")
    table = open_columns("--corrections", path, COLUMNS, TIMES)
    units = [time_columns.divided(normalized(table.column_of(name))).unit for name in TIMES]
    decisions = [_parse_decision(path, row, units) for row in table.rows()]
    _refuse_contradictions(path, decisions, lambda label: label)
    return decisions


def _parse_decision(path: str, row: Row, units: Sequence[str]) -> Decision:
    """The decision in a row; raises `RunError`, with `path` and its place, if a cell cannot be used."""
    video, label, kind, answer = (row.cells[name] for name in COLUMNS)
    label, kind, answer = (
        label.strip(),
        kind.strip().lower(),
        answer.strip().lower(),
    )  # `video` keeps its blanks: an id may have some
    if kind not in (WRONG, MISSING):
        raise RunError(f"{path}, {row.place}: the kind is {kind[:40]!r}; expected {WRONG} or {MISSING}.")
    answer = "" if is_nothing(answer) else answer
    if answer not in _DECISIONS:
        raise RunError(f"{path}, {row.place}: the decision is {answer[:40]!r}; expected yes, no or an empty cell.")
    if not video.strip() or not label:
        raise RunError(f"{path}, {row.place}: the {'class' if video.strip() else 'video'} is empty.")
    name = id_bytes(text_of_spreadsheet(video).encode("utf-8", "surrogateescape"))
    text = clean_name(text_of_spreadsheet(label))
    return Decision(row.number, name, text, kind, _DECISIONS[answer], _parse_span(path, row, units))


def _parse_span(path: str, row: Row, units: Sequence[str]) -> tuple[float, float] | None:
    """The start and the end in a row, whose columns have the units; None if it has neither."""
    cells = [time_columns.in_seconds(row.cells.get(name, ""), unit) for name, unit in zip(TIMES, units, strict=True)]
    if all(map(is_empty, cells)):
        return None
    with refusing(lambda error: RunError(f"{path}, {row.place}: a time is {error}.")):
        start, end = map(parse_time, cells)
    if end <= start:
        raise RunError(f"{path}, {row.place}: the end, {end:g}, is not after the start, {start:g}.")
    return start, end


def _refuse_contradictions(path: str, decisions: Sequence[Decision], class_of: Callable[[str], Hashable]) -> None:
    """Raises `RunError` if one decision says that a video shows a class and another one denies it."""
    decisions_by_class: dict[tuple[bytes, Hashable], list[Decision]] = {}
    for decision in decisions:
        if decision.is_right is None:
            continue
        earlier_decisions = decisions_by_class.setdefault((decision.video, class_of(decision.label)), [])
        for earlier in earlier_decisions:
            if earlier.says_present != decision.says_present and decision.shares_time_with(earlier):
                raise RunError(
                    f"{path}, line {decision.line}: the decision on class {decision.label!r} of this video contradicts "
                    f"the one in line {earlier.line}; remove one of them."
                )
        earlier_decisions.append(decision)


def described_file(path: str) -> dict[str, str]:
    """How a manifest names a file by which labels were changed, wherever it lies, and knows its content."""
    name = path.replace("\\", "/").rpartition("/")[2]
    return {"file": name, "sha256": hashlib.sha256(storage.read_bytes(path)).hexdigest()}


class Corrections:
    """The decisions in a CSV table. If the path is empty, there are none.

    Attributes:
      idle: the decisions that have changed nothing: a missing label is there already, or a wrong one is not there.
      without_cell: those of the idle ones that say nothing of any cell of a record, since they cover half of none.
    """

    def __init__(self, path: str) -> None:
        self.path, self._changes = path, dict[bytes, list[Decision]]()
        self.idle, self.without_cell = set[Decision](), set[Decision]()
        self._decisions = read_decisions(path) if path else []
        for decision in self._decisions:
            if decision.is_right:
                self._changes.setdefault(decision.video, []).append(decision)
        self.count = sum(map(len, self._changes.values()))
        self._described = described_file(path) if path else {}

    def manifest_entry(self, added: int, removed: int) -> dict[str, Any]:
        """The entry of a manifest that describes the decisions; empty without a table."""
        if not self.path:
            return {}
        return {**self._described, ADDED: added, REMOVED: removed}

    @property
    def videos(self) -> Collection[bytes]:
        """The ids of the videos for which a decision says that a label is wrong or missing."""
        return self._changes.keys()

    def changes_of(self, video: bytes) -> Sequence[Decision]:
        """The decisions that say that a label of a video is wrong or missing."""
        return self._changes.get(video, ())

    def refuse_undecided(self) -> None:
        """Refuses a table in which nobody has decided anything."""
        if all(decision.is_right is None for decision in self._decisions):
            raise UsageError(
                f"--corrections={self.path}: nothing is decided; the column decision is empty in all "
                f"{len(self._decisions)} rows. Write yes there where a label really is wrong or missing, else no."
            )

    def warn_of_idle(self, source: str = "the table") -> None:
        """Prints a warning if decisions have changed nothing in the labels of `source`."""
        for decisions in filter(None, (self.idle - self.without_cell, self.without_cell)):
            first = min(decisions)
            state = f"{source} {'already has it' if first.kind == MISSING else 'does not have it'}"
            state += " at this time" if first.span else ""
            if first in self.without_cell:
                state = "its time covers half of no cell of the record, so change its start and end"
            print(
                f"Warning: {len(decisions)} decisions of --corrections={self.path} changed nothing, such as line "
                f"{first.line}: {first.label[:60]!r} of {id_text(first.video)[:60]!r} is said to be {first.kind}, but "
                f"{state}.",
                file=sys.stderr,
            )

    def check(self, classes: Classes, *, are_spans: bool = False, of_whole: str = _ROWS_OF_WHOLE) -> None:
        """Refuses decisions that cannot be applied to the labels of these classes.

        Args:
          are_spans: whether the labels have times.
          of_whole: what has labels without times, and what to do about it.
        """
        class_of = class_lookup(classes)
        changes = list(itertools.chain.from_iterable(self._changes.values()))
        for decision in changes:
            if decision.span is not None and not are_spans:
                raise UsageError(
                    f"--corrections={self.path}, line {decision.line}: the decision is about a part of the video, but "
                    f"{of_whole}, or leave its start and end empty."
                )
            if decision.span is None and are_spans and decision.kind == MISSING:
                raise UsageError(
                    f"--corrections={self.path}, line {decision.line}: a missing label of spans needs a start and an "
                    "end; fill these columns, as yt8m audit does for records of spans."
                )
        self._refuse_unknown_classes([decision for decision in changes if class_of(decision.label) < 0], classes)
        decisions_on_classes = [decision for decision in self._decisions if class_of(decision.label) >= 0]
        _refuse_contradictions(self.path, decisions_on_classes, class_of)

    def _refuse_unknown_classes(self, unknown: Sequence[Decision], classes: Classes) -> None:
        """Raises `UsageError` if there are decisions on classes that the labels cannot have."""
        if not unknown:
            return
        first = min(unknown)
        names = classes.vocabulary.names if classes.vocabulary else classes.number
        count = f"; {len(unknown)} decisions are about such classes" if len(unknown) > 1 else ""
        raise UsageError(
            f"--corrections={self.path}, line {first.line}: {first.label[:60]!r} is not one of the "
            f"{classes.size} classes{suggestion(first.label, names)}{count}."
        )

    def apply(self, ids: Sequence[bytes], labels: Labels, classes: Classes) -> CorrectedLabels:
        """Applies the decisions to the labels of a batch of rows."""
        class_of = class_lookup(classes)
        decisions = [
            (row, decision)
            for row, video in enumerate(ids if self._changes else ())
            for decision in self._changes.get(video, ())
        ]
        if not decisions:
            return CorrectedLabels(labels, *np.zeros((2, 0), np.int64))
        changes = [(row, class_of(decision.label), decision.kind == MISSING) for row, decision in decisions]
        rows, codes, is_missing = (np.array(column, np.int64) for column in zip(*changes, strict=True))
        # Each pair (row, class) becomes one number, so that NumPy's functions of sets can compare the pairs.
        width = max(classes.size, int(labels.codes.max(initial=0)) + 1)
        pairs, changed = labels.rows * width + labels.codes, rows * width + codes
        added_pairs = np.setdiff1d(changed[is_missing == 1], pairs)
        removed_pairs = np.intersect1d(changed[is_missing == 0], pairs)
        is_idle = ~np.isin(changed, np.concatenate([added_pairs, removed_pairs]))
        self.idle.update(decision for (_, decision), idle in zip(decisions, is_idle.tolist(), strict=True) if idle)
        pairs = np.sort(np.concatenate([pairs[~np.isin(pairs, removed_pairs)], added_pairs]))
        return CorrectedLabels(Labels(pairs // width, pairs % width), added_pairs // width, removed_pairs // width)


def class_lookup(classes: Classes) -> Callable[[str], int]:
    """Returns a function from a label (a name or a class number) to its class, or to -1 if it has none."""
    listed = classes.vocabulary.names if classes.vocabulary else ()
    names = {name: index for index, name in reversed(list(enumerate(listed)))}

    def find_class(label: str) -> int:
        if label in classes.number or label in names:
            return classes.number.get(label, names.get(label, -1))
        return int(label) if CLASS_NUMBER.fullmatch(label) and int(label) < classes.size else -1

    return find_class


def read_answers(path: str, vocabulary: Collection[str] = ()) -> dict[str, Answer]:
    """Reads {id of the video: joint answer} from a table, or a Label Studio export; the unanswered are left out.

    Args:
      vocabulary: the names of the classes, as far as they are known.
    """
    storage.refuse_missing(path, "labels", "expected a table of ids and labels, or Label Studio's JSON export")
    tasks = _tasks_in(path)
    if tasks is None:
        with refusing(lambda error: RunError(f"{path}: {error}.")):
            return {_parse_video_id(video): answer for video, answer in read_label_table(path, vocabulary)}
    answers: dict[str, Answer] = {}
    for number, task in enumerate(tasks, 1):
        with refusing(functools.partial(_refused_task, path, number)):
            video, choices = _parse_video_id(task["data"]["id"]), choices_by_person(task["annotations"], CONTROL)
        if video in answers:
            raise RunError(f"{path}, task {number}: an earlier task has the same video, {video!r}; remove one of them.")
        if choices:
            answers[video] = combine_choices(choices)
    return answers


def _tasks_in(path: str) -> list[Any] | None:
    """The tasks of Label Studio in a JSON file; None if it is a table."""
    if storage.is_dir(path):
        return None
    with encodings.open_bytes(path) as file:
        is_json = file.read(_START).lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"[", b"{"))
    if not is_json:
        return None
    try:
        tasks = storage.parse_json(encodings.read_text(path).removeprefix("\ufeff"))
    except ValueError:
        return None
    are_tasks = isinstance(tasks, list) and any(isinstance(task, dict) and _TASK_KEYS & task.keys() for task in tasks)
    return tasks if are_tasks or tasks == [] else None


def _refused_task(path: str, number: int, error: Exception) -> RunError:
    reason = f"there is no {error}" if isinstance(error, KeyError) else str(error)
    return RunError(
        f"{path}, task {number}: expected data with an id, and annotations with answers of a control named "
        f"{CONTROL} ({reason}); export the tasks that yt8m select wrote as JSON, not as "
        f'JSON-MIN, and give the control that name in the labelling config: <Choices name="{CONTROL}" ...>.'
    )


def _parse_video_id(value: Any) -> str:
    """The id of a task's video, from the text that `yt8m select` wrote; bytes that are not UTF-8 become surrogates."""
    if not isinstance(value, str | int) or isinstance(value, bool) or not str(value).strip():
        raise TypeError(f"the id is {value!r}")
    try:
        return id_bytes(str(value).strip().encode()).decode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise TypeError(f"the id is {value!r}") from error


def write_answers(path: str, answers: Mapping[str, Answer], separator: str) -> None:
    """Writes a CSV table of the answers, with the columns `ANSWERS_HEADER`.

    Args:
      answers: {id of the video: joint answer}.
      separator: text between two labels in a cell.
    """
    rows = (
        (spreadsheet_text(_id_text(video)), spreadsheet_text(separator.join(labels)), people, f"{disagreement:.3f}")
        for video, (labels, people, disagreement) in answers.items()
    )
    write_table(path, ANSWERS_HEADER, rows)


def _id_text(video: str) -> str:
    return id_text(video.encode("utf-8", "surrogateescape"))


class AnsweredTable:
    """A table of videos in which the joint answers of people replace the labels of the videos that they labelled.

    Args:
      answers: {id of the video: joint answer}.
    """

    def __init__(self, table: Table, answers: Mapping[str, Answer]) -> None:
        self.path, self.columns, self.features = table.path, table.columns, table.features
        self._table, self._answers, self.missing = table, answers, set(answers)

    def batches(self, size: int, skip: int = 0, features: Sequence[str] = ()) -> Iterator[Rows]:
        """See `Table`."""
        for rows in self._table.batches(size, skip, features):
            pairs = zip(rows.cells["id"], rows.labels, strict=True)
            labels = [self._replace_labels(str(video).strip(), cell) for video, cell in pairs]
            yield rows._replace(cells={**rows.cells, "labels": labels})

    def clean_label(self, name: Any) -> str:
        """See `Table`."""
        return self._table.clean_label(name)

    def _replace_labels(self, video: str, cell: Any) -> Any:
        """The video's labels: those of the people's answer if there is one, else those in `cell` of the table."""
        if video not in self._answers:
            return cell
        self.missing.discard(video)
        return tuple(map(clean_name, self._answers[video].labels))
