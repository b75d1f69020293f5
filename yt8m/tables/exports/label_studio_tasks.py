"""The tasks of an export of Label Studio as rows: a row for each video, or for each span of a video."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

from yt8m.errors import RunError, UsageError, refusing
from yt8m.tables.exports import label_studio_spans
from yt8m.tables.exports.label_studio import choices_by_person, choose_control, combine_choices, latest_by_person
from yt8m.tables.sources.source import MemorySource
from yt8m.tables.words import words

# Keys of the data of a task that name its video, the surest first.
_ID_KEYS = words("id video_id video clip name file_name filename file audio image url text")
MEDIA = label_studio_spans.MEDIA
_NO_IDS = frozenset(["parts", "split"])


def read_tasks(path: str, tasks: Sequence[Mapping[str, Any]], control: str = "") -> MemorySource | None:
    """The rows of Label Studio's JSON export; None if the objects are no tasks.

    A task that nobody has answered has no row: it does not say that its video shows no class.
    """
    if not all(isinstance(task.get("data"), dict) for task in tasks):
        return None
    _refuse_predictions(path, tasks)
    if not all("annotations" in task for task in tasks):
        return None
    chosen = choose_control(path, tasks, control)
    has_spans, has_only_spans = label_studio_spans.have_times(tasks, chosen)
    key = _id_key([task["data"] for task in tasks], may_repeat=has_spans)
    if not key:
        keys = ", ".join(tasks[0]["data"])
        raise UsageError(f"{path}: the data of a task has {keys}; none of them names each video once, such as an id.")
    answered: dict[int, Mapping[str, Any]] = {}
    ids, labels = [], []
    undecided: dict[int, str] = {}  # {place: id} of videos of which no class has a majority
    for number, task in enumerate(tasks, 1):
        with refusing(functools.partial(_refusal, path, number)):
            if not latest_by_person(task["annotations"]):
                continue
            choices = choices_by_person(task["annotations"], chosen, may_lack=has_only_spans)
        answered[number] = task
        ids.append(str(task["data"][key]))
        labels.append(list(combine_choices(choices).labels) if choices else [])
        if any(choices) and not labels[-1]:
            undecided[len(ids) - 1] = ids[-1]
    unanswered = len(tasks) - len(answered)
    remark = f"; tasks without an answer, whose videos are left out: {unanswered}" if unanswered else ""
    form = f'Label Studio\'s JSON, answers of the control "{chosen}"{remark}'
    if undecided:
        form += f"; videos left out, since people disagree and no class has a majority: {len(undecided)}, such as "
        form += next(iter(undecided.values()))
    others = _other_columns([task["data"] for task in answered.values()], key)
    cells: dict[str, list[Any]] = {"id": ids, "labels": labels, **others}
    cells = {
        name: [value for place, value in enumerate(values) if place not in undecided] for name, values in cells.items()
    }
    source = MemorySource(path, cells, form, {name: name for name in cells if name != MEDIA})
    source.means_spans = has_only_spans
    if has_spans:
        source.by_spans = functools.partial(
            label_studio_spans.rows_of_spans, path, answered, ids, others, chosen, remark
        )
    return source


def _refuse_predictions(path: str, tasks: Sequence[Mapping[str, Any]]) -> None:
    """Refuses tasks with what a model has found, of which nobody has answered one."""
    if any(task.get("predictions") for task in tasks) and not any(task.get("annotations") for task in tasks):
        raise UsageError(
            f"{path} has tasks with predictions of a model, and no annotations: nobody has answered them. Import them "
            "into Label Studio, let people correct and submit them, and export the project as JSON. Spans that a model "
            "has found are read from the table that --spans_format=csv writes."
        )


def _refusal(path: str, number: int, error: Exception) -> RunError:
    return RunError(f"{path}, task {number}: {error}.")


def _other_columns(data: Sequence[Mapping[str, Any]], key: str) -> dict[str, list[Any]]:
    """{column: cell of each task} of the split, and of the address of the video beside its id, if the data have them.

    Args:
      key: the key of the ids.
    """
    splits, columns = [str(entry.get("split") or "") for entry in data], dict[str, list[Any]]()
    if any(splits):
        columns["split"] = splits
    addresses = [entry.get(MEDIA) for entry in data]
    if key != MEDIA and addresses and all(isinstance(address, str) and address for address in addresses):
        columns[MEDIA] = addresses
    return columns


def _id_key(data: Sequence[Mapping[str, Any]], may_repeat: bool) -> str:
    """The key of the data of tasks that names the video; empty if there is none.

    Args:
      may_repeat: whether a video may have several tasks, if no key names each video once.
    """
    if all(label_studio_spans.asks_for_parts(entry) and entry.get("id") for entry in data):
        return "id"  # a film has several tasks if its parts were chosen at several times
    keys = [*_ID_KEYS, *(key for key in data[0] if key not in _NO_IDS)]
    filled_keys = [
        key
        for key in dict.fromkeys(keys)
        if all(isinstance(entry.get(key), str | int) and entry.get(key) != "" for entry in data)
    ]
    unique = [key for key in filled_keys if len({str(entry[key]) for entry in data}) == len(data)]
    media = [key for key in filled_keys if key in _ID_KEYS] if may_repeat else []
    return next(iter([*unique, *media]), "")
