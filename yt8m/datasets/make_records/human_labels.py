"""Labels that people gave, and their decisions on labels that may be wrong or missing.

`yt8m make-records --labels` replaces labels of the table by those from Label Studio. The file is Label Studio's JSON
export (https://labelstud.io/guide/export): a list of tasks with data and annotations. Several people may have answered
a task. A class is a label if more than half of them chose it. If one person made several annotations, the one that was
changed last counts.

`yt8m make-records --corrections` applies the decisions of a table:

    rank,video,class,kind,chance,decision
    1,clip 017,dog,wrong,0.998,yes
    2,clip 203,cat,missing,0.991,no

`yt8m audit` writes such a table with an empty column `decision`. `yes` removes a wrong label or adds a missing label.
`no` or an empty cell changes nothing. Only the columns video, class, kind and decision are read, in any order. The
cells may be separated by semicolons or tabs, as spreadsheets write them in some countries.
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from yt8m import storage
from yt8m.datasets.make_records.classes import CLASS_NUMBER, Classes
from yt8m.datasets.make_records.rows import Labels
from yt8m.datasets.make_records.tables import Rows, Table
from yt8m.errors import RunError, UsageError, suggestion
from yt8m.eval_util.arrays import Ints64
from yt8m.records.prediction_files import spreadsheet_text, text_of_spreadsheet, write_table
from yt8m.records.shards import id_bytes, id_text

ANSWERS = "answers.csv"  # the file in --out with the joint answer on each video of --labels
ANSWERS_HEADER = ("video", "labels", "people", "disagreement")  # its columns; see `Answer`
# The name of the control in Label Studio whose choices are classes; `yt8m select` writes its tasks for this name.
CONTROL = "classes"
WRONG, MISSING = "wrong", "missing"  # the kinds of decisions
COLUMNS = ("video", "class", "kind", "decision")  # the columns that a table of decisions must have
ADDED, REMOVED = "labels added", "labels removed"  # names of two counts in `manifest_entry`
# {cell of the column `decision`, in lower case: whether the label really is wrong or missing, None if undecided}
_DECISIONS = {"": None, "yes": True, "y": True, "true": True, "no": False, "n": False, "false": False}


class Decision(NamedTuple):
    """One row of a table of decisions.

    Attributes:
      line: number of the row's line in the file.
      video: the id.
      label: the class, spelt as in the table of the records.
      kind: WRONG or MISSING.
      is_right: whether the label really is wrong or missing; None if nobody has decided.
    """

    line: int
    video: bytes
    label: str
    kind: str
    is_right: bool | None

    @property
    def says_present(self) -> bool:
        """Whether the decision says that the video shows the class: a label is missing, or is not wrong.

        Meaningless if nobody has decided.
        """
        return (self.kind == MISSING) == self.is_right


class CorrectedLabels(NamedTuple):
    """The labels of a batch of rows after the decisions.

    Attributes:
      labels: the labels, whose codes are classes.
      added: int64, the row in the batch of each label that was added.
      removed: int64, the row in the batch of each label that was removed.
    """

    labels: Labels
    added: Ints64
    removed: Ints64


def read_decisions(path: str) -> list[Decision]:
    """Reads all rows of a table of decisions, a CSV file with at least the columns `COLUMNS`.

    Raises:
      UsageError: there is no such file, or it lacks a column.
      RunError: a row cannot be read, or contradicts another one; the message names the line.
    """
    storage.refuse_missing(path, "corrections", "`yt8m audit` writes a decisions.csv")
    try:
        text = storage.read_text(path).removeprefix("\ufeff")
        separator = max(",;\t", key=text.partition("\n")[0].count)
        rows = csv.DictReader(io.StringIO(text, newline=""), strict=True, delimiter=separator)
        missing = [name for name in COLUMNS if name not in (rows.fieldnames or ())]
        if missing:
            raise UsageError(
                f"--corrections={path}: there is no column {missing[0]!r}; expected {','.join(COLUMNS)} at least."
            )
        decisions = [_parse_decision(path, rows.line_num, row) for row in rows]
    except (csv.Error, UnicodeDecodeError) as error:
        raise RunError(f"{path} is not a CSV file in UTF-8: {error}; save it as CSV in UTF-8.") from error
    _refuse_contradictions(path, decisions, lambda label: label)
    return decisions


def _parse_decision(path: str, line: int, row: Mapping[str, Any]) -> Decision:
    """The decision in a row {column: cell}; raises `RunError`, with `path` and `line`, if a cell cannot be used."""
    video, label, kind, answer = (row[name] or "" for name in COLUMNS)
    label, kind, answer = label.strip(), kind.strip(), answer.strip()  # `video` keeps its blanks: an id may have some
    if kind not in (WRONG, MISSING):
        raise RunError(f"{path}, line {line}: the kind is {kind[:40]!r}; expected {WRONG} or {MISSING}.")
    if answer.lower() not in _DECISIONS:
        raise RunError(f"{path}, line {line}: the decision is {answer[:40]!r}; expected yes, no or an empty cell.")
    if not video.strip() or not label:
        raise RunError(f"{path}, line {line}: the {'class' if video.strip() else 'video'} is empty.")
    name = id_bytes(text_of_spreadsheet(video).encode("utf-8", "surrogateescape"))
    return Decision(line, name, text_of_spreadsheet(label), kind, _DECISIONS[answer.lower()])


def _refuse_contradictions(path: str, decisions: Sequence[Decision], class_of: Callable[[str], Hashable]) -> None:
    """Raises `RunError` if one decision says that a video shows a class and another one denies it.

    Args:
      path: path of the table, for the message.
      decisions: the decisions.
      class_of: function from a label to its class. Labels that are spelt differently may mean one class.
    """
    decisions_by_class: dict[tuple[bytes, Hashable], Decision] = {}
    for decision in decisions:
        if decision.is_right is None:
            continue
        earlier_decision = decisions_by_class.setdefault((decision.video, class_of(decision.label)), decision)
        if earlier_decision.says_present != decision.says_present:
            raise RunError(
                f"{path}, line {decision.line}: the decision on class {decision.label!r} of this video contradicts "
                f"the one in line {earlier_decision.line}; remove one of them."
            )


class Corrections:
    """The decisions in a CSV table. If the path is empty, there are none.

    Args:
      path: path of the table.

    Attributes:
      path: path of the table.
      count: number of decisions that say that a label is wrong or missing.

    Raises:
      UsageError, RunError: as for `read_decisions`.
    """

    def __init__(self, path: str) -> None:
        self.path, self._changes = path, dict[bytes, list[Decision]]()
        self._decisions = read_decisions(path) if path else []
        for decision in self._decisions:
            if decision.is_right:
                self._changes.setdefault(decision.video, []).append(decision)
        self.count = sum(map(len, self._changes.values()))
        self._digest = hashlib.sha256(storage.read_bytes(path)).hexdigest() if path else ""

    def manifest_entry(self, added: int, removed: int) -> dict[str, Any]:
        """The entry of a manifest that describes the decisions; empty without a table.

        Args:
          added: number of labels that the decisions added to the records.
          removed: number of labels that the decisions removed.
        """
        if not self.path:
            return {}
        name = self.path.replace("\\", "/").rpartition("/")[2]
        return {"file": name, "sha256": self._digest, ADDED: added, REMOVED: removed}

    @property
    def videos(self) -> Collection[bytes]:
        """The ids of the videos for which a decision says that a label is wrong or missing."""
        return self._changes.keys()

    def check(self, classes: Classes) -> None:
        """Refuses decisions that cannot be applied to the labels of these classes.

        Raises:
          UsageError: a decision is on a class that the records do not have.
          RunError: two decisions, one with the name and one with the number of a class, contradict each other.
        """
        class_of = _class_lookup(classes)
        for decision in itertools.chain.from_iterable(self._changes.values()):
            if class_of(decision.label) < 0:
                names = classes.vocabulary.names if classes.vocabulary else classes.number
                raise UsageError(
                    f"--corrections={self.path}, line {decision.line}: {decision.label[:60]!r} is not one of the "
                    f"{classes.size} classes{suggestion(decision.label, names)}."
                )
        decisions_on_classes = [decision for decision in self._decisions if class_of(decision.label) >= 0]
        _refuse_contradictions(self.path, decisions_on_classes, class_of)

    def apply(self, ids: Sequence[bytes], labels: Labels, classes: Classes) -> CorrectedLabels:
        """Applies the decisions to the labels of a batch of rows.

        Args:
          ids: the id of each row.
          labels: the labels, whose codes are classes.
          classes: the classes.
        """
        class_of = _class_lookup(classes)
        changes = [
            (row, class_of(decision.label), decision.kind == MISSING)
            for row, video in enumerate(ids if self._changes else ())
            for decision in self._changes.get(video, ())
        ]
        if not changes:
            return CorrectedLabels(labels, *np.zeros((2, 0), np.int64))
        rows, codes, is_missing = (np.array(column, np.int64) for column in zip(*changes, strict=True))
        # Each pair (row, class) becomes one number, so that NumPy's functions of sets can compare the pairs.
        width = max(classes.size, int(labels.codes.max(initial=0)) + 1)
        pairs, changed = labels.rows * width + labels.codes, rows * width + codes
        added_pairs = np.setdiff1d(changed[is_missing == 1], pairs)
        removed_pairs = np.intersect1d(changed[is_missing == 0], pairs)
        pairs = np.sort(np.concatenate([pairs[~np.isin(pairs, removed_pairs)], added_pairs]))
        return CorrectedLabels(Labels(pairs // width, pairs % width), added_pairs // width, removed_pairs // width)


def _class_lookup(classes: Classes) -> Callable[[str], int]:
    """Returns a function from a label (a name or a class number) to its class, or to -1 if it has none."""
    listed = classes.vocabulary.names if classes.vocabulary else ()
    names = {name: index for index, name in reversed(list(enumerate(listed)))}

    def find_class(label: str) -> int:
        if label in classes.number or label in names:
            return classes.number.get(label, names.get(label, -1))
        return int(label) if CLASS_NUMBER.fullmatch(label) and int(label) < classes.size else -1

    return find_class


class Answer(NamedTuple):
    """The joint answer of several people to the question which classes a video shows.

    Attributes:
      labels: the classes that more than half of the people chose, sorted.
      people: number of people who answered.
      disagreement: share of the people whose choice of classes is not exactly `labels`.
    """

    labels: tuple[str, ...]
    people: int
    disagreement: float


def read_answers(path: str) -> dict[str, Answer]:
    """Reads {id of the video: joint answer} from a Label Studio export; tasks that nobody answered are left out.

    Raises:
      UsageError: there is no such file.
      RunError: the file is not such an export; the message names the task.
    """
    storage.refuse_missing(path, "labels", "expected Label Studio's JSON export")
    try:
        tasks = storage.parse_json(storage.read_text(path).removeprefix("\ufeff"))
    except ValueError as error:
        raise RunError(f"{path} is not JSON: {error}.") from error
    if not isinstance(tasks, list):
        raise RunError(f"{path} is not Label Studio's JSON export: expected a list of tasks.")
    answers: dict[str, Answer] = {}
    for number, task in enumerate(tasks, 1):
        try:
            video, choices = _parse_video_id(task["data"]["id"]), _choices_by_person(task["annotations"])
        except (KeyError, TypeError, AttributeError) as error:
            raise RunError(
                f"{path}, task {number}: expected data with an id, and annotations ({type(error).__name__}: {error}); "
                "export the tasks that yt8m select wrote as JSON, not as JSON-MIN."
            ) from error
        if video in answers:
            raise RunError(f"{path}, task {number}: an earlier task has the same video, {video!r}; remove one of them.")
        if choices:
            answers[video] = combine_choices(choices)
    _refuse_other_controls(path, tasks)
    return answers


def _refuse_other_controls(path: str, tasks: Sequence[Mapping[str, Any]]) -> None:
    """Raises `RunError` if the export has choices, but none of the control `CONTROL`.

    Without this check, such an export would mean that no video shows any class.
    """
    annotations = itertools.chain.from_iterable(task["annotations"] for task in tasks)
    results = [result for annotation in annotations if not _is_skipped(annotation) for result in annotation["result"]]
    controls = sorted({str(result.get("from_name")) for result in results if result.get("type") == "choices"})
    if controls and CONTROL not in controls:
        raise RunError(
            f"{path} has choices of the controls {', '.join(controls)}; expected a control named {CONTROL}. "
            f'Give the control that name in the labelling config: <Choices name="{CONTROL}" ...>.'
        )


def _parse_video_id(value: Any) -> str:
    """The id of a task's video, from the text that `yt8m select` wrote; bytes that are not UTF-8 become surrogates.

    Raises:
      TypeError: the id is neither text nor a whole number, is empty, or cannot be encoded as UTF-8.
    """
    if not isinstance(value, str | int) or isinstance(value, bool) or not str(value).strip():
        raise TypeError(f"the id is {value!r}")
    try:
        return id_bytes(str(value).strip().encode()).decode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise TypeError(f"the id is {value!r}") from error


def _choices_by_person(annotations: Any) -> list[frozenset[str]]:
    """The classes that each person chose in a task; a person who skipped the task is left out.

    If a person made several annotations, the one that was changed last counts.
    """
    if not isinstance(annotations, list):
        raise TypeError("the annotations are not a list")
    people: dict[Any, frozenset[str]] = {}
    for number, annotation in enumerate(sorted(annotations, key=_last_change)):
        if not _is_skipped(annotation):
            people[_find_person(annotation, number)] = _chosen_classes(annotation)
    return [*people.values()]


def _is_skipped(annotation: Mapping[str, Any]) -> bool:
    """Whether the person skipped the task; then the annotation need not have a result."""
    return bool(annotation.get("was_cancelled", False))


def _last_change(annotation: Mapping[str, Any]) -> str:
    """The time of the last change of an annotation, as text that sorts in the order of time; empty if it is unknown."""
    return str(annotation.get("updated_at") or annotation.get("created_at") or "")


def _find_person(annotation: Mapping[str, Any], number: int) -> Any:
    """A key of the person who made an annotation.

    If the export names nobody, the key is made from `number`, the number of the annotation, so that each annotation
    counts as the answer of another person.
    """
    person = annotation.get("completed_by")
    if isinstance(person, Mapping):
        person = person.get("id", person.get("email"))
    return ("annotation", number) if person is None else person


def _chosen_classes(annotation: Mapping[str, Any]) -> frozenset[str]:
    """The classes chosen in an annotation; choices of controls other than `CONTROL` are ignored.

    Raises:
      TypeError: the control is of another type than choices, or a choice is not text.
    """
    results = [result for result in annotation["result"] if result.get("from_name") == CONTROL]
    others = {str(result["type"]) for result in results} - {"choices"}
    if others:
        raise TypeError(f"the control {CONTROL} is of type {', '.join(sorted(others))}, not choices")
    choice_lists = [result["value"]["choices"] for result in results]
    if not all(isinstance(choices, list) for choices in choice_lists):
        raise TypeError("the choices are not a list")
    if not all(isinstance(choice, str) for choices in choice_lists for choice in choices):
        raise TypeError("a choice is not text")
    return frozenset(choice.strip() for choices in choice_lists for choice in choices)


def combine_choices(choices: Sequence[frozenset[str]]) -> Answer:
    """Joins the answers of one or more people; `choices` has the classes that each person chose."""
    votes = Counter(label for classes in choices for label in classes)
    labels = frozenset(label for label, count in votes.items() if 2 * count > len(choices))
    return Answer(tuple(sorted(labels)), len(choices), sum(classes != labels for classes in choices) / len(choices))


def write_answers(path: str, answers: Mapping[str, Answer], separator: str) -> None:
    """Writes a CSV table of the answers, with the columns `ANSWERS_HEADER`.

    Args:
      path: the file to write.
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
      table: the table.
      answers: {id of the video: joint answer}.

    Attributes:
      missing: the ids of the answers that no row has used so far.
    """

    def __init__(self, table: Table, answers: Mapping[str, Answer]) -> None:
        self.path, self.columns, self.features = table.path, table.columns, table.features
        self._table, self._answers, self.missing = table, answers, set(answers)

    def batches(self, size: int, skip: int = 0, features: Sequence[str] = ()) -> Iterator[Rows]:
        """See `Table`."""
        for rows in self._table.batches(size, skip, features):
            pairs = zip(rows.cells["id"], rows.cells["labels"], strict=True)
            labels = [self._replace_labels(str(video).strip(), cell) for video, cell in pairs]
            yield rows._replace(cells={**rows.cells, "labels": labels})

    def _replace_labels(self, video: str, cell: Any) -> Any:
        """The labels in the answer on a video; without an answer, its labels in the table, `cell`."""
        if video not in self._answers:
            return cell
        self.missing.discard(video)
        return list(self._answers[video].labels)
