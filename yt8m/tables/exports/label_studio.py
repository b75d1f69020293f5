"""Answers in exports of Label Studio: JSON, JSON-MIN and CSV. Every control that gives classes is understood.

The answers to a task are joined: a class is a label if more than half of the people chose it. If one person made
several annotations, the one that was changed last counts.
"""

from __future__ import annotations

import contextlib
import datetime
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from yt8m.errors import UsageError
from yt8m.tables.words import word_set, words
from yt8m.tables.words.meanings import CLASS_TYPES

OF_REGIONS = word_set("choices taxonomy")  # controls that may describe regions of other controls
_NO_CLASSES = words("textarea rating number datetime pairwise relation")
JOIN = "+"  # between the names of several controls in --columns
_MOST_SECONDS = 1e11  # since 1970; larger numbers are milliseconds
PATH_SEPARATOR = "/"  # between the steps of a class in a taxonomy


class Answer(NamedTuple):
    """The joint answer of several people to the question which classes a video shows.

    Attributes:
      labels: the classes that more than half of the people chose, sorted.
      disagreement: share of the people whose choice of classes is not exactly `labels`.
    """

    labels: tuple[str, ...]
    people: int
    disagreement: float


def combine_choices(choices: Sequence[frozenset[str]]) -> Answer:
    """Joins the answers of one or more people; `choices` has the classes that each person chose."""
    votes = Counter(label for classes in choices for label in classes)
    labels = frozenset(label for label, count in votes.items() if 2 * count > len(choices))
    return Answer(tuple(sorted(labels)), len(choices), sum(classes != labels for classes in choices) / len(choices))


def choices_by_person(annotations: Any, control: str, *, may_lack: bool = False) -> list[frozenset[str]]:
    """The classes that each person chose in a task; a person who skipped the task is left out.

    Args:
      may_lack: whether an answer without results of the control says that there is no class, as one of regions does.
    """
    if not isinstance(annotations, list):
        raise TypeError("the annotations are not a list")
    return [_chosen_classes(annotation, control, may_lack) for annotation in latest_by_person(annotations)]


def latest_by_person(annotations: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The annotation of each person who did not skip the task; the one that was changed last, if there are several.

    If people have marked annotations as ground truth, these alone count.
    """
    people: dict[Any, Mapping[str, Any]] = {}
    true = [
        item for item in annotations if isinstance(item, Mapping) and item.get("ground_truth") and not is_skipped(item)
    ]
    for number, annotation in enumerate(sorted(true or annotations, key=_last_change)):
        if not is_skipped(annotation):
            people[_find_person(annotation, number)] = annotation
    return [*people.values()]


def is_skipped(annotation: Mapping[str, Any]) -> bool:
    """Whether the person skipped the task; then the annotation need not have a result."""
    return isinstance(annotation, Mapping) and bool(annotation.get("was_cancelled", False))


def _last_change(annotation: Mapping[str, Any]) -> datetime.datetime:
    """The time of the last change of an annotation; the earliest of all times if it is unknown."""
    text = str(annotation.get("updated_at") or annotation.get("created_at") or "")
    with contextlib.suppress(ValueError, OverflowError, OSError):  # seconds or milliseconds since 1970
        seconds = float(text)
        return datetime.datetime.fromtimestamp(seconds / 1000 if seconds > _MOST_SECONDS else seconds, datetime.UTC)
    try:
        time = datetime.datetime.fromisoformat(text)
    except ValueError:
        time = datetime.datetime.min
    return time if time.tzinfo else time.replace(tzinfo=datetime.UTC)


def _find_person(annotation: Mapping[str, Any], number: int) -> Any:
    """A key of the person who made an annotation.

    If the export names nobody, the key is made from `number`, the number of the annotation, so that each annotation
    counts as the answer of another person.
    """
    person = annotation.get("completed_by")
    if isinstance(person, Mapping):
        person = person.get("id", person.get("email"))
    return ("annotation", number) if person is None else person


def _chosen_classes(annotation: Mapping[str, Any], control: str, may_lack: bool) -> frozenset[str]:
    """The classes chosen in an annotation by a control."""
    results = results_of(annotation)
    results_of_control = [result for result in results if result.get("from_name") in controls_in(control)]
    if results and not results_of_control and not may_lack:
        others = {
            result.get("from_name", "without a name"): result.get("type") for result in results if "type" in result
        }
        listed = ", ".join(
            f"{name} (type {kind})" for name, kind in sorted(others.items(), key=str) if kind != "relation"
        )
        raise TypeError(
            f"the answer has {f'results of the controls {listed}' if listed else 'relations alone'}, but none of the "
            f"control {control}"
        )
    return frozenset(name.strip() for result in results_of_control for name in names_of(result))


def results_of(annotation: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The results of an annotation, each of one control."""
    results = annotation.get("result") if isinstance(annotation, Mapping) else None
    if not isinstance(results, list) or not all(isinstance(result, Mapping) for result in results):
        raise TypeError("an annotation has no list of results")
    return results


def names_of(result: Mapping[str, Any]) -> list[str]:
    """The names of the classes in a result; a class of a taxonomy is the path to it."""
    kind = str(result["type"])
    if kind not in CLASS_TYPES:
        raise TypeError(f"the control {result.get('from_name')} is of type {kind}, not choices, and gives no classes")
    value = result["value"]
    names = value.get("labels", []) if kind == "videorectangle" else value[kind]
    if not isinstance(names, list):
        raise TypeError(f"the {kind} are not a list")
    names = [PATH_SEPARATOR.join(map(str, name)) if isinstance(name, list) else name for name in names]
    if not all(isinstance(name, str) for name in names):
        raise TypeError("a choice is not text")
    return names


def controls_of(tasks: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """{name of a control that gives classes: its type}, of all answers to tasks."""
    annotations = [annotation for task in tasks for annotation in task.get("annotations") or ()]
    results = [result for annotation in annotations if not is_skipped(annotation) for result in results_of(annotation)]
    return {
        str(result.get("from_name")): str(result.get("type"))
        for result in results
        if result.get("type") not in _NO_CLASSES and result.get("from_name") is not None
    }


def _describes_regions(tasks: Sequence[Mapping[str, Any]], control: str) -> bool:
    """Whether all answers of a control describe regions whose classes another control has, as `perRegion` asks."""
    answers = [
        (result, {other.get("id") for other in results if other.get("from_name") != control and _is_region(other)})
        for task in tasks
        for annotation in task.get("annotations") or ()
        if not is_skipped(annotation)
        for results in [results_of(annotation)]
        for result in results
        if result.get("from_name") == control
    ]
    return bool(answers) and all(
        result.get("type") in OF_REGIONS and result.get("id") in regions for result, regions in answers
    )


def _is_region(result: Mapping[str, Any]) -> bool:
    return str(result.get("type")) in CLASS_TYPES and result.get("type") not in OF_REGIONS


def controls_in(control: str) -> frozenset[str]:
    """The names in the value of --columns=labels, which may have several with `+` between them."""
    return frozenset([control, *control.split(JOIN)])


def choose_control(path: str, tasks: Sequence[Mapping[str, Any]], control: str) -> str:
    """The control whose answers are labels: the named one, or the only one of the export that gives classes."""
    if control:
        return control
    controls = controls_of(tasks)
    classes = [name for name, kind in controls.items() if kind in CLASS_TYPES]
    if len(classes) > 1:
        classes = [name for name in classes if not _describes_regions(tasks, name)] or classes
    if len(classes) == 1:
        return classes[0]
    if classes:
        listed = " or ".join(f"--columns=labels={name} (type {controls[name]})" for name in sorted(classes))
        raise UsageError(
            f"{path}: the answers of several controls may be the labels; choose one by {listed}, or take several by "
            f"--columns=labels={JOIN.join(sorted(classes)[:3])}."
        )
    if not controls:
        raise UsageError(
            f"{path}: no control of the export gives classes, since nobody has answered a task by choices, labels or a "
            "taxonomy. Export it again after tasks have been answered."
        )
    listed = ", ".join(f"{name} (type {kind})" for name, kind in sorted(controls.items()))
    raise UsageError(f"{path}: no control of the export gives classes; it has answers of: {listed}.")
