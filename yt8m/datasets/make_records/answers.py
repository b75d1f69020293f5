"""Labels that people gave in Label Studio, which `yt8m make-records --labels` takes in place of those of the table.

The file is Label Studio's JSON export (https://labelstud.io/guide/export): a list of tasks with data and annotations.
Several people may have answered a task. A class is a label if more than half of them chose it. Of several annotations
by one person, the one that was changed last counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from yt8m import storage
from yt8m.datasets.make_records.tables import Rows, Table
from yt8m.errors import RunError, UsageError
from yt8m.records.prediction_files import spreadsheet_text, write_table

FILE = "answers.csv"
HEADER = ("video", "labels", "people", "disagreement")
# The name of the control whose choices are classes. `yt8m select` writes its tasks for this name.
CONTROL = "classes"


class Answer(NamedTuple):
    """What several people said of a video.

    Attributes:
      labels: the classes that more than half of them chose, sorted.
      people: how many answered.
      disagreement: the share of them who chose other classes than these.
    """

    labels: tuple[str, ...]
    people: int
    disagreement: float


def read_answers(path: str) -> dict[str, Answer]:
    """{id: answer} of a Label Studio export; tasks without an answer are left out.

    Raises:
      UsageError: there is no such file.
      RunError: the file is no such export; the message names the task.
    """
    if not storage.exists(path):
        raise UsageError(f"--labels={path}: there is no such file; expected Label Studio's JSON export.")
    try:
        tasks = storage.parse_json(storage.read_text(path).removeprefix("\ufeff"))
    except ValueError as error:
        raise RunError(f"{path} is not JSON: {error}.") from error
    if not isinstance(tasks, list):
        raise RunError(f"{path} is not Label Studio's JSON export: expected a list of tasks.")
    answers: dict[str, Answer] = {}
    for number, task in enumerate(tasks, 1):
        try:
            video, choices = _id(task["data"]["id"]), _choices_by_person(task["annotations"])
        except (KeyError, TypeError, AttributeError) as error:
            raise RunError(
                f"{path}, task {number}: expected data with an id, and annotations ({type(error).__name__}: {error}); "
                "export the tasks that yt8m select wrote as JSON, not as JSON-MIN."
            ) from error
        if video in answers:
            raise RunError(f"{path}, task {number}: there is a task of video {video!r} already.")
        if choices:
            answers[video] = joined_answer(choices)
    _refuse_other_controls(path, tasks)
    return answers


def _refuse_other_controls(path: str, tasks: Sequence[Mapping[str, Any]]) -> None:
    """Without this, an export of another labelling config would say that no video shows any class."""
    results = [result for task in tasks for annotation in task["annotations"] for result in annotation["result"]]
    controls = sorted({str(result["from_name"]) for result in results if result.get("type") == "choices"})
    if controls and CONTROL not in controls:
        raise RunError(
            f"{path} has choices of {', '.join(controls)}, and none of a control that is named {CONTROL}; "
            f'name it so in the labelling config: <Choices name="{CONTROL}" ...>.'
        )


def _id(value: Any) -> str:
    """The id of a task's video."""
    if not isinstance(value, str | int) or isinstance(value, bool) or not str(value).strip():
        raise TypeError(f"the id is {value!r}")
    return str(value).strip()


def _choices_by_person(annotations: Any) -> list[frozenset[str]]:
    """The classes that each person chose who answered; skipped tasks are no answers."""
    if not isinstance(annotations, list):
        raise TypeError("the annotations are not a list")
    people: dict[Any, frozenset[str]] = {}
    for number, annotation in enumerate(sorted(annotations, key=_time)):
        if not annotation.get("was_cancelled", False):
            people[_person(annotation, number)] = _choices(annotation)
    return [*people.values()]


def _time(annotation: Mapping[str, Any]) -> str:
    """When an annotation was changed last, as Label Studio writes it: such texts sort by time."""
    return str(annotation.get("updated_at") or annotation.get("created_at") or "")


def _person(annotation: Mapping[str, Any], number: int) -> Any:
    """Who made an annotation: a number, or fields of the account. If neither is there, each annotation is a person."""
    person = annotation.get("completed_by")
    if isinstance(person, Mapping):
        person = person.get("id", person.get("email"))
    return ("annotation", number) if person is None else person


def _choices(annotation: Mapping[str, Any]) -> frozenset[str]:
    """The classes that a person chose; choices of other controls are no classes."""
    results = [result for result in annotation["result"] if result.get("from_name") == CONTROL]
    others = {str(result["type"]) for result in results} - {"choices"}
    if others:
        raise TypeError(f"the control {CONTROL} is of type {', '.join(sorted(others))}, not choices")
    chosen = [result["value"]["choices"] for result in results]
    if not all(isinstance(choices, list) for choices in chosen):
        raise TypeError("the choices are not a list")
    if not all(isinstance(choice, str) for choices in chosen for choice in choices):
        raise TypeError("a choice is not text")
    return frozenset(choice.strip() for choices in chosen for choice in choices)


def joined_answer(choices: Sequence[frozenset[str]]) -> Answer:
    """The answer of several people, each of whom chose some classes."""
    votes = Counter(label for each in choices for label in each)
    labels = frozenset(label for label, count in votes.items() if 2 * count > len(choices))
    return Answer(tuple(sorted(labels)), len(choices), sum(each != labels for each in choices) / len(choices))


def write_answers(path: str, answers: Mapping[str, Answer], separator: str) -> None:
    """Writes a table of the answers, with the disagreement on each."""
    rows = (
        (spreadsheet_text(video), spreadsheet_text(separator.join(labels)), people, f"{disagreement:.3f}")
        for video, (labels, people, disagreement) in answers.items()
    )
    write_table(path, HEADER, rows)


class WithAnswers:
    """A table in which the labels of videos that people have labelled are their answers.

    Args:
      table: the table.
      answers: {id: answer}.
    """

    def __init__(self, table: Table, answers: Mapping[str, Answer]) -> None:
        self.path, self.columns, self.features = table.path, table.columns, table.features
        self._table, self._answers = table, answers

    def batches(self, size: int, skip: int = 0, features: Sequence[str] = ()) -> Iterator[Rows]:
        """See `Table`."""
        for rows in self._table.batches(size, skip, features):
            pairs = zip(rows.cells["id"], rows.cells["labels"], strict=True)
            labels = [self._labels(str(video).strip(), cell) for video, cell in pairs]
            yield rows._replace(cells={**rows.cells, "labels": labels})

    def _labels(self, video: str, cell: Any) -> Any:
        return list(self._answers[video].labels) if video in self._answers else cell
