"""Exports of programs that label pictures and videos one by one, known by their keys; see also `annotators`.

Prodigy, Kili, SageMaker Ground Truth, LabelMe, V7 Darwin, VoTT, FiftyOne and VIA 3.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from yt8m.errors import UsageError
from yt8m.tables.words import word_set, words
from yt8m.tables.words.meanings import SPLIT_WORDS

Labels = dict[str, list[str]]
Task = Mapping[str, Any]
Spans = dict[str, list[tuple[list[str], float, float]]]  # {video: (classes, start, end) of each of its spans}
_MEDIA_KEYS = words("video image audio path text")
_JOIN = "+"
_ANSWERS = word_set("accept reject ignore")
_SPAN_KEYS = words("audio_spans spans")
_KILI_IDS = words("externalId external_id")
_BY_PEOPLE = words("REVIEW DEFAULT")  # the kinds of answers by people, the surest first; others are those of models


def read_tasks(path: str, tasks: Sequence[Task]) -> tuple[str, Labels] | None:
    """(the name of the program, {id: classes}) of a list of JSON objects; None if no program is known by their keys."""
    readers: tuple[tuple[str, Callable[[Task], Any], Callable[[str, Sequence[Task]], Labels]], ...] = (
        ("Prodigy", _is_of_prodigy, _prodigy),
        ("Kili", _is_of_kili, _kili),
        ("SageMaker Ground Truth", lambda task: "source-ref" in task, _ground_truth),
        ("LabelMe", lambda task: {"imagePath", "shapes"} <= task.keys(), _labelme),
        ("V7 Darwin", lambda task: isinstance(task.get("item"), Mapping) and "annotations" in task, _darwin),
    )
    for program, fits, reader in readers:
        if all(map(fits, tasks)):
            return program, reader(path, tasks)
    return None


def _is_of_prodigy(task: Task) -> bool:
    return task.get("answer") in _ANSWERS and ("_task_hash" in task or {"accept", "options"} <= task.keys())


def _prodigy(path: str, tasks: Sequence[Task]) -> Labels:
    """The accepted choices, or the labels that were accepted one by one. What was ignored is left out."""
    key = _media_key(path, tasks)
    labels: Labels = {}
    for task in tasks:
        name, answer = str(task[key]), task["answer"]
        if "accept" in task:
            if answer == "accept":  # to reject or to ignore a choice says nothing of its classes
                texts = _texts_of_options(task)
                labels[name] = [texts.get(option, str(option)) for option in task["accept"]]
        elif answer != "ignore":
            chosen = labels.setdefault(name, [])
            names = [task["label"]] if "label" in task else [span["label"] for span in _spans(task)]
            chosen += [label for label in map(str, names) if answer == "accept" and label not in chosen]
    return labels


def _texts_of_options(task: Task) -> dict[Any, str]:
    """{id: text} of the choices that Prodigy has shown; pictures have no text."""
    options = [option for option in task.get("options") or () if isinstance(option, Mapping)]
    return {option.get("id"): str(option["text"]) for option in options if option.get("text")}


def _media_key(path: str, tasks: Sequence[Task]) -> str:
    """The key whose texts name what was labelled: media may stand in the file as data instead."""
    for key in _MEDIA_KEYS:
        values = [task.get(key) for task in tasks]
        if all(isinstance(value, str) and value and not value.startswith("data:") for value in values):
            return key
    raise UsageError(f"{path}: no key of Prodigy's tasks names each video; expected {', '.join(_MEDIA_KEYS[:4])}.")


def _spans(task: Task) -> Iterator[Task]:
    for key in _SPAN_KEYS:
        yield from task.get(key) or ()


def _ground_truth(path: str, tasks: Sequence[Task]) -> Labels:
    """The answers of the only job of an augmented manifest, by the names in its metadata."""
    jobs = {key.removesuffix("-metadata") for task in tasks for key in task if key.endswith("-metadata")}
    if len(jobs) != 1:
        listed = ", ".join(sorted(jobs)) or "none"
        raise UsageError(f"{path} has the answers of several jobs: {listed}; expected one job, so keep one of them.")
    (job,) = jobs
    return {str(task["source-ref"]): _names_of_job(task[job], task[f"{job}-metadata"]) for task in tasks if job in task}


def _names_of_job(answer: Any, metadata: Task) -> list[str]:
    if "class-name" in metadata:
        return [str(metadata["class-name"])]
    names = metadata["class-map"]
    if isinstance(answer, Mapping):  # boxes
        answer = [box["class_id"] for box in answer["annotations"]]
    return list(dict.fromkeys(str(names[str(number)]) for number in answer))


def _labelme(_: str, tasks: Sequence[Task]) -> Labels:
    """The flags that are set, and the labels of the shapes."""
    return {
        str(task["imagePath"]): [
            *(name for name, is_set in (task.get("flags") or {}).items() if is_set),
            *(str(shape["label"]) for shape in task["shapes"]),
        ]
        for task in tasks
    }


def _darwin(path: str, tasks: Sequence[Task]) -> Labels:
    annotations = [annotation for task in tasks for annotation in task["annotations"]]
    names = {annotation["name"] for annotation in annotations}
    if len(names) == 1 and any(annotation.get("attributes") for annotation in annotations):
        raise UsageError(
            f"{path}: all annotations are of the class {min(names)!r}, and have attributes. If these are the classes, "
            'write {"id": ..., "labels": [...]} for each video.'
        )
    return {
        f"{task['item'].get('path', '')}/{task['item']['name']}".lstrip("/"): [
            str(annotation["name"]) for annotation in task["annotations"]
        ]
        for task in tasks
    }


def read_vott(path: str, value: Task) -> Labels | None:
    """{file: tags} of a project of VoTT, {"assets": {id: {"asset", "regions"}}}, or of one asset; None for others.

    The pictures of a video have its labels together.
    """
    assets = list(value["assets"].values()) if isinstance(value.get("assets"), Mapping) else [value]
    if not assets or not all(isinstance(item, Mapping) and {"asset", "regions"} <= item.keys() for item in assets):
        return None
    labels: Labels = {}
    paths: dict[str, str] = {}
    for item in assets:
        file = item["asset"].get("parent") or item["asset"]
        name, address = str(file["name"]), str(file.get("path", ""))
        if paths.setdefault(name, address) != address:
            raise UsageError(f"{path}: two files are called {name[:60]!r}; give each a name of its own.")
        labels.setdefault(name, []).extend(str(tag) for region in item["regions"] for tag in region["tags"])
    return labels


def read_fiftyone_samples(path: str, value: Task) -> tuple[Labels, list[str]] | None:
    """({file: classes}, the split of each) of the samples of a data set of FiftyOne; None for other objects."""
    samples = value.get("samples")
    if not isinstance(samples, list) or not all(
        isinstance(sample, Mapping) and "filepath" in sample for sample in samples
    ):
        return None
    fields = {name for sample in samples for name, field in sample.items() if _has_labels(field)}
    field = "ground_truth" if "ground_truth" in fields else next(iter(fields), "")
    if not field or (len(fields) > 1 and field != "ground_truth"):
        listed = ", ".join(sorted(fields)) or "none"
        raise UsageError(
            f"{path}: the samples of FiftyOne have the label fields {listed}; expected one, or one called ground_truth."
        )
    labels = {str(sample["filepath"]): _field_labels(sample.get(field)) for sample in samples}
    splits = [_split_of(sample.get("tags") or ()) for sample in samples]
    return labels, splits if any(splits) else []


def _has_labels(field: Any) -> bool:
    kind = str(field.get("_cls", "")) if isinstance(field, Mapping) else ""
    return kind.removesuffix("s") in ("Classification", "Detection", "TemporalDetection", "Polyline")


def _field_labels(field: Task | None) -> list[str]:
    if not field:
        return []
    entries = [field] if "label" in field else next((item for item in field.values() if isinstance(item, list)), [])
    return list(dict.fromkeys(str(entry["label"]) for entry in entries if entry.get("label") is not None))


def _split_of(tags: Iterable[Any]) -> str:
    splits = [str(tag) for tag in tags if str(tag).lower() in SPLIT_WORDS]
    return splits[0] if len(splits) == 1 else ""


def read_via3(path: str, value: Task, control: str = "") -> tuple[Labels, Spans] | None:
    """({file: classes}, their spans) of a project of VIA 3; None for other objects.

    Args:
      control: the attributes whose options are classes, with `+` between them; empty if marks have only one, beside
        those of whole files. Without a mark that has a start and an end there are no spans.
    """
    if not all(isinstance(value.get(key), Mapping) for key in words("project attribute file metadata view")):
        return None
    attributes = _attributes_of_via3(path, value, control)
    labels: Labels = {str(file["fname"]): [] for file in value["file"].values()}
    spans: Spans = {name: [] for name in labels}
    have_times = True
    for mark in value["metadata"].values():
        if attributes.isdisjoint(mark["av"]):
            continue
        (file,) = value["view"][str(mark["vid"])]["fid_list"]
        name, classes = str(value["file"][str(file)]["fname"]), _names_of_mark(value, mark, attributes)
        labels[name] += classes
        if have_times := have_times and _has_times(mark):
            start, end = map(float, mark["z"])
            spans[name].append((classes, start, end))
    return labels, spans if have_times else {}


def _attributes_of_via3(path: str, value: Task, control: str) -> set[str]:
    """The numbers of the attributes whose options are classes."""
    name_of = {number: str(attribute["aname"]) for number, attribute in value["attribute"].items()}
    if control:
        return {number for number, name in name_of.items() if name in (control, *control.split(_JOIN))}
    marks = value["metadata"].values()
    used = {number for mark in marks for number, text in mark["av"].items() if text != ""}
    of_spans = {number for mark in marks if _has_times(mark) for number, text in mark["av"].items() if text != ""}
    if len(of_spans) == 1:
        return of_spans  # the others are those of whole files
    if len(used) != 1:
        names = [name_of[number] for number in sorted(used)]
        choices = f" Choose by --columns=labels={names[0]}, or --columns=labels={_JOIN.join(names)}." if names else ""
        raise UsageError(
            f"{path}: marks of VIA 3 have the attributes {', '.join(names) or 'none'}; expected one, whose options are "
            f"classes.{choices}"
        )
    return used


def _has_times(mark: Task) -> bool:
    return len(mark.get("z") or ()) == 2


def _names_of_mark(value: Task, mark: Task, attributes: set[str]) -> list[str]:
    """The options that a mark of VIA 3 has chosen, or its text."""
    names = list[str]()
    for attribute in sorted(attributes & mark["av"].keys()):
        text, options = mark["av"][attribute], value["attribute"][attribute].get("options") or {}
        chosen = str(text).split(",") if options else [text]
        names += [str(options[number.strip()]) if options else str(number) for number in chosen if number != ""]
    return names


def spans_of_prodigy(tasks: Sequence[Task]) -> Spans:
    """The accepted spans of sound or of videos in Prodigy's tasks, in seconds; none if its tasks have no such key.

    What was rejected or ignored says nothing of the video, so it is left out.
    """
    if not all("audio_spans" in task and "_task_hash" in task for task in tasks):
        return {}
    key = next(key for key in _MEDIA_KEYS if key in tasks[0])
    spans: Spans = {}
    for task in tasks:
        if task["answer"] == "accept":
            of_video = spans.setdefault(str(task[key]), [])
            of_video += [
                ([str(span["label"])], float(span["start"]), float(span["end"])) for span in task["audio_spans"]
            ]
    return spans


def _is_of_kili(asset: Task) -> bool:
    """Whether an object is an asset of Kili with its answers."""
    answers = asset.get("labels")
    has_answers = isinstance(answers, list) and all(isinstance(a, Mapping) and "jsonResponse" in a for a in answers)
    return any(key in asset for key in _KILI_IDS) and (has_answers or isinstance(asset.get("latestLabel"), Mapping))


def _kili(path: str, assets: Sequence[Task]) -> dict[str, list[str]]:
    """{external id: classes} of the last answer of each asset; a review counts before what it reviews."""
    labels: dict[str, list[str]] = {}
    jobs = dict[str, None]()
    for asset in assets:
        name = str(next(asset[key] for key in _KILI_IDS if key in asset))
        if name in labels:
            raise UsageError(f"{path} has the asset {name[:60]!r} twice; keep one of them.")
        responses = _responses_of_kili(path, name, asset)
        jobs.update(dict.fromkeys(job for response in responses for job in response))
        labels[name] = [
            label for response in responses for answer in response.values() for label in _classes_of_job(answer)
        ]
    if len(jobs) > 1:
        raise UsageError(
            f"{path} has the answers of several jobs of Kili: {', '.join(jobs)[:200]}; expected one, so keep one of "
            "them."
        )
    return labels


def _responses_of_kili(path: str, name: str, asset: Task) -> list[Task]:
    """The answers that count: those of a video are by frame."""
    answers = [asset["latestLabel"]] if "latestLabel" in asset else list(asset["labels"])
    for kind in _BY_PEOPLE:
        of_kind = [answer for answer in answers if answer.get("labelType", kind) == kind]
        latest = [answer for answer in of_kind if answer.get("isLatestLabelForUser", True)]
        several = [sorted(set(_classes_of_answer(answer))) for answer in latest]
        if any(names != several[0] for names in several[1:]):
            raise UsageError(
                f"{path}: people do not agree on {name[:60]!r}: {' and '.join(map(str, several))[:200]}. Review it in "
                "Kili, or keep one answer."
            )
        if latest:
            response = latest[-1]["jsonResponse"]
            return list(response.values()) if response and all(map(str.isdecimal, response)) else [response]
    return []


def _classes_of_answer(answer: Task) -> Iterator[str]:
    response = answer["jsonResponse"]
    for frame in response.values() if response and all(map(str.isdecimal, response)) else [response]:
        for job in frame.values():
            yield from _classes_of_job(job)


def _classes_of_job(job: Task) -> Iterator[str]:
    """The classes of a job: of a classification, or of the objects that were marked."""
    for answer in (job, *(job.get("annotations") or ())):
        for category in answer.get("categories") or ():
            yield str(category["name"])


def read_labelbox(values: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Labelbox: the answers to the classifications of a data row, in each of its projects."""
    labels: dict[str, list[str]] = {}
    for value in values:
        row = value["data_row"]
        name = str(row.get("external_id") or row.get("global_key") or row["id"])
        answers = labels.setdefault(name, [])
        for project in value["projects"].values():
            for label in project["labels"]:
                answers += _answers_of_labelbox(label["annotations"].get("classifications", ()))
    return labels


def read_old_labelbox(values: Sequence[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Labelbox before 2023: a column `Label` with the classifications."""
    labels: dict[str, list[str]] = {}
    for value in values:
        label = value["Label"]
        label = json.loads(label) if isinstance(label, str) and label.startswith("{") else label
        classes = label.get("classifications", ()) if isinstance(label, dict) else ()
        labels.setdefault(str(value["External ID"]), []).extend(_answers_of_labelbox(classes))
    return labels


def _answers_of_labelbox(classifications: Iterable[Mapping[str, Any]]) -> list[str]:
    names = []
    for entry in classifications:
        answers = (
            entry.get("checklist_answers")
            or entry.get("answers")
            or entry.get("radio_answer")
            or entry.get("answer")
            or []
        )
        for answer in answers if isinstance(answers, list) else [answers]:
            names.append(str(answer.get("name") or answer.get("title") or answer["value"]))
    return names
