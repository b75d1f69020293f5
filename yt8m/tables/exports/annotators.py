"""Exports of other programs and data sets, known by their shape: each becomes rows of an id, labels and a split."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from yt8m.errors import UsageError, refusing
from yt8m.tables.exports import json_names, label_programs, labeling_services, via_tables
from yt8m.tables.sources.csv_source import CsvSource
from yt8m.tables.sources.encodings import parse_xml
from yt8m.tables.sources.source import ROWS_AT_ONCE, MemorySource, Source, source_of_spans

_DOCCANO = frozenset(("id", "text", "data", "filename", "label", "labels", "Comments", "comments", "meta"))
_HINTS = {"id": "id", "labels": "labels"}
_OF_VIA = frozenset(("caption", "public_domain", "image_url"))  # attributes of files that VIA 2 gives new projects
_Labels = dict[str, list[str]]
_Attributes = tuple[str, Mapping[str, Any]]  # of a file of VIA


def from_object(path: str, value: Mapping[str, Any], control: str = "") -> MemorySource | None:
    """The rows of a JSON object: COCO, COIN, ActivityNet, Datumaro, VoTT, FiftyOne, VIA, LabelMe; None for others.

    Args:
      control: the attribute of VIA 3, or the kind of labels of Hasty, that has the classes; empty if there is only one.
    """
    with refusing(functools.partial(_refusal, path, "Hasty's")):
        if labelled := labeling_services.read_hasty(path, value, control):
            return _of_service(path, labelled)
    for reader in (_coco, _coin, _activitynet, _datumaro, _vott, _fiftyone, _fiftyone_samples, _via3, _via, _single):
        with refusing(functools.partial(_refusal, path, reader.__name__.strip("_"))):
            source = _via3(path, value, control) if reader is _via3 else reader(path, value)
        if source:
            return source
    return None


def from_records(path: str, values: Sequence[Mapping[str, Any]], control: str = "") -> MemorySource | None:
    """The rows of a list of JSON objects: Vertex AI, Labelbox, `label_programs` and `labeling_services`; else None."""
    with refusing(functools.partial(_refusal, path, "an annotation program's")):
        if labelled := labeling_services.read_services(path, values, control):
            return _of_service(path, labelled)
        if export := label_programs.read_tasks(path, values):
            return _with_spans(_source(path, *export), label_programs.spans_of_prodigy(values))
        if vertex := _vertex(path, values):
            return vertex
        if all({"image_id", "category_id", "score"} <= value.keys() for value in values):
            _refuse_scores(path, values)
        if all("data_row" in value and "projects" in value for value in values):
            return _source(path, "Labelbox", label_programs.read_labelbox(values))
        if all("Label" in value and "External ID" in value for value in values):
            return _source(path, "Labelbox", label_programs.read_old_labelbox(values))
    return None


def _refusal(path: str, name: str, error: Exception) -> UsageError:
    lack = f"the key {error.args[0]!r} is missing" if isinstance(error, KeyError) else f"{error!r}"
    return UsageError(f"{path} looks like {name} JSON, but lacks what belongs there: {lack}.")


def _source(path: str, form: str, labels: Mapping[str, Iterable[str]], **others: Sequence[Any]) -> MemorySource:
    ids = list(labels)
    lists = [list(dict.fromkeys(map(str, labels[name]))) for name in ids]
    return MemorySource(path, {"id": ids, "labels": lists, **others}, form, _HINTS)


def _of_service(path: str, labelled: labeling_services.Labelled) -> MemorySource:
    return _source(path, labelled.program + labelled.remark, labelled.labels)


def _coco(path: str, value: Mapping[str, Any]) -> MemorySource | None:
    """COCO: images or videos, categories, and annotations that join them. The name of the file is the id."""
    kind = next((kind for kind in ("videos", "images") if isinstance(value.get(kind), list)), "")
    if not kind or not isinstance(value.get("annotations"), list) or not isinstance(value.get("categories"), list):
        return None
    names = {category["id"]: str(category["name"]) for category in value["categories"]}
    owner = f"{kind.removesuffix('s')}_id"
    labels: dict[Any, list[str]] = {item["id"]: [] for item in value[kind]}
    _refuse_scores(path, value["annotations"])
    for number, annotation in enumerate(value["annotations"]):
        for key, numbers in ((owner, labels), ("category_id", names)):
            if annotation.get(key) not in numbers:
                lack = f"the {key} {annotation[key]}, which is not listed" if key in annotation else f"no {key}"
                raise UsageError(
                    f"{path} looks like coco JSON, but lacks what belongs there: annotation {number} has {lack}."
                )
        labels[annotation[owner]].append(names[annotation["category_id"]])
    files = {item["id"]: str(item.get("file_name") or item.get("name") or item["id"]) for item in value[kind]}
    if len(set(files.values())) < len(files):
        raise UsageError(f"{path}: two of the {kind} have the same file name; give each its own.")
    form = f"COCO{_federated(value[kind])}"
    return _source(path, form, {files[number]: names for number, names in labels.items()})


def _federated(items: Sequence[Mapping[str, Any]]) -> str:
    """What is said of data in which each picture was searched for some classes alone, as LVIS has it; else empty."""
    if not any("neg_category_ids" in item or "not_exhaustive_category_ids" in item for item in items):
        return ""
    return (
        ' in which each picture was searched for some classes alone ("neg_category_ids" has those that were not seen), '
        "but here a class without an annotation is absent"
    )


def _refuse_scores(path: str, annotations: Sequence[Mapping[str, Any]]) -> None:
    """Refuses annotations with scores, as COCO's evaluation reads the results of a model."""
    scores = {annotation["score"] for annotation in annotations if "score" in annotation} - {0, 1, None}
    if scores:
        raise UsageError(
            f"{path} has the results of a model as COCO's evaluation reads them, with scores as {min(scores)}, and "
            "no labels of people. Keep the annotations that count, and delete their key score."
        )


def _coin(path: str, value: Mapping[str, Any]) -> MemorySource | None:
    """COIN: {"database": {id: {"class", "subset", "annotation": the steps of its task}}}; the class is the label."""
    videos = value.get("database")
    if not isinstance(videos, dict) or not videos:
        return None
    if not all(isinstance(video.get("class"), str) and "annotations" not in video for video in videos.values()):
        return None
    labels = {name: [video["class"]] for name, video in videos.items()}
    return _source(path, "COIN, tasks", labels, split=[str(video.get("subset", "")) for video in videos.values()])


def _activitynet(path: str, value: Mapping[str, Any]) -> MemorySource | None:
    """ActivityNet: {"database": {id: {"subset", "annotations": [{"label", "segment"}]}}}; the whole video's labels."""
    videos = value.get("database")
    if "external_data" in value and isinstance(value.get("results"), dict):
        raise UsageError(
            f"{path} has the results of a model as ActivityNet's evaluation reads them, and no labels of people; spans "
            "that a model has found are read from the table that --spans_format=csv writes."
        )
    if not isinstance(videos, dict):
        return None
    annotations = _activitynet_annotations(path, videos)
    withheld = _withheld(videos, annotations)
    videos = {name: video for name, video in videos.items() if name not in withheld}
    annotations = {name: annotations[name] for name in videos}
    remark = (
        f"; videos of {', '.join(sorted(set(withheld.values())))}, without annotations, are left out"
        if withheld
        else ""
    )
    labels = {name: [str(entry["label"]) for entry in entries] for name, entries in annotations.items()}
    splits = [str(video.get("subset", "")) for video in videos.values()]
    source = _source(path, f"ActivityNet, labels of whole videos{remark}", labels, split=splits)
    all_entries = [entry for entries in annotations.values() for entry in entries]
    if any("segment" in entry for entry in all_entries):
        lengths = {name: float(video.get("duration") or 0) for name, video in videos.items()}
        source.by_spans = refusing(functools.partial(_refusal, path, "activitynet"))(
            lambda _: _activitynet_spans(path, annotations, splits, remark, lengths)
        )
        source.means_spans = all("segment" in entry for entry in all_entries)
    return source


def _activitynet_annotations(path: str, videos: Mapping[str, Any]) -> dict[str, Sequence[Mapping[str, Any]]]:
    """The annotations of each video; those of a test without answers have none."""
    annotations = {name: video.get("annotations") or [] for name, video in videos.items()}
    name, first = next(iter(videos.items()), ("", {}))
    if not any(annotations.values()):
        raise UsageError(
            f'{path} looks like ActivityNet\'s JSON, but no video of its "database" has "annotations", a list of '
            f"objects with a label; {name[:60]!r} has: {', '.join(first)[:200] or 'nothing'}."
        )
    for name, entries in annotations.items():
        for number, entry in enumerate(entries):
            if "label" not in entry:
                keys = ", ".join(entry)[:200] or "nothing"
                raise UsageError(f"{path}: annotation {number} of {name[:60]!r} has no label; it has: {keys}.")
    return annotations


def _withheld(videos: Mapping[str, Any], annotations: Mapping[str, Sequence[Any]]) -> dict[str, str]:
    """{video: subset} of the subsets of which no video has annotations: as published, those of a test are withheld."""
    subsets = {name: str(video.get("subset", "")) for name, video in videos.items()}
    shown = {subsets[name] for name, entries in annotations.items() if entries}
    return {name: subset for name, subset in subsets.items() if subset not in shown}


def _activitynet_spans(
    path: str,
    annotations: Mapping[str, Sequence[Mapping[str, Any]]],
    splits: Sequence[str],
    remark: str,
    lengths: Mapping[str, float],
) -> MemorySource:
    """A row for each span of ActivityNet's videos; a video without a span has a row without times."""
    rows = [
        (name, labels, split, start, end)
        for (name, entries), split in zip(annotations.items(), splits, strict=True)
        for labels, start, end in [([str(entry["label"])], *map(float, entry["segment"])) for entry in entries]
        or [([], None, None)]
    ]
    columns = ("id", "labels", "split", "start", "end")
    source = source_of_spans(path, f"ActivityNet, spans{remark}", rows, columns)
    source.lengths = lengths
    source.places = [
        f"annotation {number} of {name[:60]!r}"
        for name, entries in annotations.items()
        for number, _ in enumerate(entries or [{}])
    ]
    return source


def _with_spans(source: MemorySource, spans: label_programs.Spans) -> MemorySource:
    """A source of whole videos that has rows of their spans too, if the export has times for all of its labels."""
    if not any(spans.values()):
        return source
    no_span: tuple[Any, ...] = ([], None, None)
    rows = [(name, *row) for name, of_video in spans.items() for row in [*of_video] or [no_span]]
    return source.with_spans(source_of_spans(source.path, source.form.partition(",")[0] + ", spans", rows))


def _datumaro(path: str, value: Mapping[str, Any]) -> MemorySource | None:
    """Datumaro: items with annotations of the type label, whose numbers the categories name."""
    if not isinstance(value.get("items"), list) or "label" not in (value.get("categories") or {}):
        return None
    names = [str(label["name"]) for label in value["categories"]["label"]["labels"]]
    labels = {
        str(item["id"]): [names[entry["label_id"]] for entry in item["annotations"] if entry["type"] == "label"]
        for item in value["items"]
    }
    return _source(path, "Datumaro", labels)


def _fiftyone(path: str, value: Mapping[str, Any]) -> MemorySource | None:
    """FiftyOne: {"classes": [name], "labels": {id: the number of its class, or several}}."""
    names, answers = value.get("classes"), value.get("labels")
    if not isinstance(names, list) or not isinstance(answers, dict):
        return None
    numbers = json_names.ClassNames("classes", dict(enumerate(map(str, names))))
    cells = dict(zip(answers, numbers.of_cells(path, list(answers.values())), strict=True))
    lists = {name: answer if isinstance(answer, list) else [answer] for name, answer in cells.items()}
    labels = {name: [_class_of(names, item) for item in items if item is not None] for name, items in lists.items()}
    return _source(path, "FiftyOne", labels)


def _fiftyone_samples(path: str, value: Mapping[str, Any]) -> MemorySource | None:
    """A data set of FiftyOne in its own form: {"samples": [{"filepath", "ground_truth"}]}."""
    labels_and_splits = label_programs.read_fiftyone_samples(path, value)
    if not labels_and_splits:
        return None
    labels, splits = labels_and_splits
    return _source(path, "FiftyOne", labels, **({"split": splits} if splits else {}))


def _vott(path: str, value: Mapping[str, Any]) -> MemorySource | None:
    labels = label_programs.read_vott(path, value)
    return None if labels is None else _source(path, "VoTT", labels)


def _via3(path: str, value: Mapping[str, Any], control: str = "") -> MemorySource | None:
    project = label_programs.read_via3(path, value, control)
    return _with_spans(_source(path, "VIA 3, labels of whole videos", project[0]), project[1]) if project else None


def _single(path: str, value: Mapping[str, Any]) -> MemorySource | None:
    """A file of one picture or video, as LabelMe and V7 Darwin write it."""
    export = label_programs.read_tasks(path, [value])
    return _source(path, *export) if export else None


def _class_of(names: Sequence[str], item: Any) -> str:
    """The class of a number, or of an object that names it."""
    if isinstance(item, int) and not 0 <= item < len(names):
        raise IndexError(f"class {item} of {len(names)}")
    return names[item] if isinstance(item, int) else str(item["label"] if isinstance(item, dict) else item)


def _vertex(path: str, values: Sequence[Mapping[str, Any]]) -> MemorySource | None:
    """Google's Vertex AI: the address of a file, its classes, and `ml_use` as its split."""
    keys = ("videoGcsUri", "imageGcsUri", "textGcsUri")
    key = next((key for key in keys if all(key in value for value in values)), "")
    if not key or not any(name.lower().endswith(("annotation", "annotations")) for value in values for name in value):
        return None
    labels, splits = dict[str, list[str]](), list[str]()
    for value in values:
        annotations = [item for name, item in value.items() if name.lower().endswith(("annotation", "annotations"))]
        answers = [answer for item in annotations for answer in (item if isinstance(item, list) else [item])]
        labels[value[key]] = [str(answer["displayName"]) for answer in answers]
        marks = value.get("dataItemResourceLabels") or {}
        splits.append(str(marks.get("aiplatform.googleapis.com/ml_use", "")))
    if len(labels) < len(values):
        raise UsageError(f"{path} has several lines with one {key}; expected one line for each.")
    return _source(path, "Vertex AI's JSON lines", labels, **({"split": splits} if any(splits) else {}))


def _via(path: str, value: Mapping[str, Any]) -> MemorySource | None:
    """VGG Image Annotator: each file with its attributes; one attribute must have the classes."""
    files = value.get("_via_img_metadata", value)
    if not isinstance(files, dict) or not files:
        return None
    items = list(files.values())
    if not all(isinstance(item, dict) and "filename" in item and "file_attributes" in item for item in items):
        return None
    regions = [
        (item["filename"], [region["region_attributes"] for region in _listed(item.get("regions"))]) for item in items
    ]
    files_of_items = [(item["filename"], item["file_attributes"]) for item in items]
    return _source(path, "VIA", via_labels(path, files_of_items, regions))


def _listed(regions: Any) -> list[Any]:
    """The regions of a file of VIA: a list, or in its first version an object."""
    return list(regions.values()) if isinstance(regions, dict) else regions or []


def from_table(source: CsvSource) -> Source:
    """The rows of a CSV file of VIA, which has the attributes of files as JSON; other files as they are."""
    if not {"filename", "file_attributes", "region_count"} <= set(source.columns):
        via_tables.refuse_via3(source)
        source.hints = {} if "labels" in source.columns else doccano_hints(source)  # its CSV says `label`
        return source
    files, regions = list[_Attributes](), dict[str, list[Mapping[str, Any]]]()
    columns = ("filename", "file_attributes", "region_attributes")
    for rows in source.batches(ROWS_AT_ONCE, 0, columns):
        for name, *texts in zip(*(rows.cells[column] for column in columns), strict=True):
            try:
                attributes, region = (json.loads(text or "{}") for text in texts)
            except ValueError as error:
                raise UsageError(f"{source.path}: the attributes of {name[:60]!r} are not JSON: {error}.") from error
            files.append((name, attributes))
            regions.setdefault(name, []).append(region)
    return _source(source.path, "VIA", via_labels(source.path, list(dict(files).items()), list(regions.items())))


def doccano_hints(source: Source) -> dict[str, str]:
    """In an export of doccano, `id` counts its examples; the text, or the name of the file, names the video."""
    names = [name for name in ("filename", "data", "text") if name in source.columns]
    if "id" not in source.columns or not names or set(source.columns) - _DOCCANO:
        return {}
    texts = dict[str, None]()
    rows_read = 0
    for rows in source.batches(ROWS_AT_ONCE, 0, ("id", names[0])):
        rows_read += rows.size
        if not all(str(value).isdecimal() for value in rows.cells["id"]):
            return {}
        texts.update(dict.fromkeys(text for text in rows.cells[names[0]] if _is_name(text)))
        if len(texts) < rows_read:
            return {}
    return {"id": names[0]} if texts else {}


def _is_name(value: Any) -> bool:
    """Whether a value is a text of one word."""
    return isinstance(value, str) and len(value.split()) == 1


def via_labels(
    path: str, files: Sequence[_Attributes], regions: Sequence[tuple[str, Sequence[Mapping[str, Any]]]]
) -> _Labels:
    """{file: classes} of VIA's files and their attributes, of which one must have the classes.

    Files without attributes have the classes of their regions.
    """
    kind = "file"
    names = [name for name in _names_of_attributes(attributes for _, attributes in files) if name not in _OF_VIA]
    pairs = list(files)
    if not names:
        kind, pairs = (
            "region",
            [(file, attributes) for file, attributes_of_regions in regions for attributes in attributes_of_regions],
        )
        names = _names_of_attributes(attributes for _, attributes in pairs)
    if len(names) != 1:
        raise UsageError(
            f"{path} has the {kind} attributes {', '.join(names) or 'none'}; expected one, whose values are the "
            "classes. Export the project with this attribute only."
        )
    labels: _Labels = {str(file): [] for file, _ in files}
    for file, attributes in pairs:
        answer = attributes.get(names[0], "")
        chosen = [name for name, is_chosen in answer.items() if is_chosen] if isinstance(answer, dict) else [answer]
        labels[str(file)].extend(name for name in chosen if name)
    return labels


def _names_of_attributes(all_attributes: Iterable[Mapping[str, Any]]) -> list[str]:
    return sorted(
        {name for attributes in all_attributes for name, answer in attributes.items() if answer not in ("", {})}
    )


def read_cvat(path: str) -> MemorySource:
    """The rows of a file of CVAT's form for images: the name of each, and the labels of its tags and shapes."""
    root = parse_xml(path)
    images = root.findall("image")
    if root.tag != "annotations" or not images:
        raise UsageError(f"{path} has the root <{root.tag}>; export CVAT for images, or write a table: id and labels.")
    names = [image.get("name", "") for image in images]
    labels = [list(dict.fromkeys(child.get("label", "") for child in image if child.get("label"))) for image in images]
    return MemorySource(path, {"id": names, "labels": labels}, "CVAT's XML", _HINTS)
