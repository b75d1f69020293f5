"""Exports of services that label pictures and videos, known by their keys: Hasty, Encord, Scale AI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from yt8m.errors import UsageError
from yt8m.tables.words.meanings import JOIN, columns_flag, is_of_labels, plain_meaning

_Object = Mapping[str, Any]
_Answers = dict[str, list[str]]  # {question, or kind of marks: classes} of a video
_OBJECTS = "objects"


class Labelled(NamedTuple):
    """What an export says.

    Attributes:
      remark: what is said of it beside its name.
    """

    program: str
    labels: dict[str, list[str]]
    remark: str = ""


def read_hasty(path: str, value: _Object, control: str = "") -> Labelled | None:
    """Hasty's JSON: images with tags, and with labels of what is marked in them; the name of a file is the id."""
    images = value.get("images")
    if "label_classes" not in value or not isinstance(images, list) or not images:
        return None
    if not all(isinstance(image, Mapping) and "image_name" in image for image in images):
        return None
    marked = [image.get("labels") or [] for image in images]
    if not all(isinstance(marks, list) and all(isinstance(mark, Mapping) for mark in marks) for marks in marked):
        return None  # other lists of pictures have names there
    names = [str(image["image_name"]) for image in images]
    if len(set(names)) < len(names):
        names = [f"{image.get('dataset_name', '')}/{name}" for image, name in zip(images, names, strict=True)]
    answers = [
        {"tags": list(_tags(image)), "labels": [str(mark["class_name"]) for mark in image.get("labels") or ()]}
        for image in images
    ]
    return Labelled("Hasty", _chosen(path, "Hasty", names, answers, control))


def _tags(image: _Object) -> Iterator[str]:
    for tag in image.get("tags") or ():
        if isinstance(tag, Mapping):
            yield from map(str, tag["tags"] if "tags" in tag else [tag["name"]])
        else:
            yield str(tag)


def read_services(path: str, values: Sequence[_Object], control: str = "") -> Labelled | None:
    """The labels of a list of JSON objects of Encord or Scale AI; None for others."""
    if all({"label_hash", "data_title", "data_units"} <= value.keys() for value in values):
        return _encord(path, values, control)
    if all({"task_id", "params"} <= value.keys() for value in values) and _are_of_scale(values):
        return _scale(path, values, control)
    return None


def _are_of_scale(tasks: Sequence[_Object]) -> bool:
    """Whether tasks have responses of Scale AI, and no labels beside them; it has tags of tasks itself."""
    names = {name for task in tasks for name in task if name != "tags"}
    has_own = any(map(is_of_labels, names))
    return not has_own and any(isinstance(task.get("response"), Mapping) and task["response"] for task in tasks)


def _encord(path: str, rows: Sequence[_Object], control: str) -> Labelled:
    """The names of the objects in each video, or the answers to a question on it."""
    labelled = [row for row in rows if row.get("label_status") != "NOT_LABELLED"]
    names = [str(row["data_title"]) for row in labelled]
    answers = [_answers_of_encord(row) for row in labelled]
    labels = _chosen(path, "Encord", names, answers, control)
    return Labelled("Encord", labels, _left_out(len(rows) - len(labelled)))


def _answers_of_encord(row: _Object) -> _Answers:
    answers: _Answers = {_OBJECTS: []}
    for unit in row["data_units"].values():
        labels = unit.get("labels") or {}
        frames = [labels] if _OBJECTS in labels else labels.values()
        answers[_OBJECTS] += [str(marked["name"]) for frame in frames for marked in frame.get(_OBJECTS) or ()]
    for answer in (row.get("classification_answers") or {}).values():
        for question in answer["classifications"]:
            chosen = question["answers"] if isinstance(question["answers"], list) else [question["answers"]]
            names = [str(item["name"] if isinstance(item, Mapping) else item) for item in chosen]
            answers.setdefault(str(question["name"]), []).extend(names)
    return answers


def _scale(path: str, tasks: Sequence[_Object], control: str) -> Labelled:
    """The labels of the marks of each task, its categories, or its answers to a question."""
    answered = [task for task in tasks if task.get("response") and task.get("status", "completed") == "completed"]
    done = [task for task in answered if task.get("customer_review_status") != "rejected"]
    key = _key_of_metadata(done)
    names = [str(task["metadata"][key] if key else _attachment(path, task)) for task in done]
    answers = [_answers_of_scale(path, task) for task in done]
    remark = (f', ids from "metadata.{key}"' if key else "") + _left_out(len(tasks) - len(answered))
    if rejected := len(answered) - len(done):
        remark += f"; {rejected} whose answers a reviewer has rejected are left out"
    return Labelled("Scale AI", _chosen(path, "Scale AI", names, answers, control), remark)


def _answers_of_scale(path: str, task: _Object) -> _Answers:
    response = task["response"]
    annotations = response.get("annotations")
    if isinstance(annotations, list):
        return {"annotations": [str(mark["label"]) for mark in annotations]}
    if "category" in response:
        category = response["category"]
        return {"category": [*map(str, category if isinstance(category, list) else [category])]}
    if isinstance(annotations, Mapping) and all(
        isinstance(answer, Mapping) and "response" in answer for answer in annotations.values()
    ):
        return {question: list(_texts(answer["response"])) for question, answer in annotations.items()}
    raise UsageError(
        f"{path}: the response of the task {str(task['task_id'])[:60]!r} of Scale AI has {', '.join(response)[:200]}, "
        "of which no labels are read: expected annotations with a label, a category, or answers to questions. Write "
        '{"id": ..., "labels": [...]} for each video.'
    )


def _texts(answer: Any) -> Iterator[str]:
    """The texts in an answer of Scale AI, which is a list of lists."""
    if isinstance(answer, list):
        for item in answer:
            yield from _texts(item)
    elif answer not in (None, ""):
        yield str(answer)


def _key_of_metadata(tasks: Sequence[_Object]) -> str:
    """The only key of the user's own metadata that names each task; empty if there is none."""
    metadata = [task.get("metadata") or {} for task in tasks]
    keys = [key for key in (metadata[0] if metadata else ()) if plain_meaning(key) == "id"]
    keys = [key for key in keys if len({str(item.get(key)) for item in metadata}) == len(metadata)]
    return keys[0] if len(keys) == 1 and all(item.get(keys[0]) for item in metadata) else ""


def _attachment(path: str, task: _Object) -> str:
    address = task["params"].get("attachment")
    if not isinstance(address, str) or not address:
        raise UsageError(
            f"{path}: the task {str(task['task_id'])[:60]!r} of Scale AI names no attachment, nor does its metadata "
            'have an id. Write {"id": ..., "labels": [...]} for each video.'
        )
    return address


def _left_out(count: int) -> str:
    return f"; {count} that nobody has labelled are left out" if count else ""


def _chosen(
    path: str, program: str, names: Sequence[str], answers: Sequence[_Answers], control: str
) -> dict[str, list[str]]:
    """{id: classes}: those of the only question that has answers, or of those that the user names."""
    repeated, count = next(iter(Counter(names).most_common(1)), ("", 0))
    if count > 1:
        raise UsageError(f"{path}: two videos of {program} are called {repeated[:60]!r}; give each a name of its own.")
    questions = list(dict.fromkeys(question for answer in answers for question, labels in answer.items() if labels))
    if control:
        answered = dict.fromkeys(question for answer in answers for question in answer)
        chosen = [control] if control in answered else control.split(JOIN)
        if missing := [name for name in chosen if name not in answered]:
            raise UsageError(f"{path}: {program} has no {missing[0]!r} here; it has: {', '.join(answered)[:200]}.")
        questions = chosen
    elif len(questions) > 1:
        choices = " or ".join(columns_flag("labels", [question]) for question in questions[:4])
        raise UsageError(
            f"{path}: {program} has several kinds of labels here: {', '.join(questions)[:200]}. Choose by {choices}, "
            f"or take all by {columns_flag('labels', questions[:4])}."
        )
    return {
        name: [label for question in questions for label in answer.get(question, ())]
        for name, answer in zip(names, answers, strict=True)
    }
