"""The chosen videos as a table, or as tasks for Label Studio with the model's tags as predictions.

The JSON is that of https://labelstud.io/guide/predictions for choices on a video; its labelling config needs
`<Video name="video" value="$video"/>` and `<Choices name="classes" toName="video" choice="multiple">`.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from yt8m import storage
from yt8m.eval_util.top_k import TopK
from yt8m.labels.label_issues import class_text
from yt8m.labels.select_config import SelectConfig
from yt8m.records.prediction_files import spreadsheet_text
from yt8m.records.vocabulary import Vocabulary
from yt8m.reports import media_links

if TYPE_CHECKING:
    from yt8m.labels.batch_selection import Selection

HEADER = ("rank", "video", "value", "distance", "classes")
_SHOWN = 5  # classes of a video in the table
_TAG = 0.5  # the score from which a class is a prediction


def write(config: SelectConfig, ids: Sequence[str], best: TopK, selection: Selection, names: Vocabulary) -> None:
    """Writes the chosen videos in the format of the config."""
    if config.format == "csv":
        with storage.write_atomic(config.out, "w") as file:
            csv.writer(file, lineterminator="\n").writerows([HEADER, *_rows(ids, best, selection, names)])
        return
    chosen = [ids[place] for place in selection.places.tolist()]
    addresses = media_links.read(config.media, config.out, chosen)
    tasks = [
        _task(video, addresses.get(video, video), config.model, list(_classes(best, place, names)))
        for video, place in zip(chosen, selection.places.tolist(), strict=True)
    ]
    storage.write(config.out, json.dumps(tasks, indent=1, ensure_ascii=False) + "\n")


def _rows(ids: Sequence[str], best: TopK, selection: Selection, names: Vocabulary) -> Iterator[list[Any]]:
    columns = zip(*(values.tolist() for values in selection), strict=True)
    for rank, (place, value, distance) in enumerate(columns, 1):
        classes = [f"{label} {score:.2f}" for label, score in list(_classes(best, place, names))[:_SHOWN]]
        far = "" if distance != distance else f"{distance:.4f}"
        yield [rank, spreadsheet_text(ids[place]), f"{value:.4f}", far, spreadsheet_text("; ".join(classes))]


def _classes(best: TopK, place: int, names: Vocabulary) -> Iterator[tuple[str, float]]:
    for number, score in zip(best.classes[place].tolist(), best.scores[place].tolist(), strict=True):
        yield class_text(names, number), score


def _task(video: str, address: str, model: str, classes: Sequence[tuple[str, float]]) -> dict[str, Any]:
    """One task; its prediction has the classes with a score of at least _TAG."""
    tags = [(label, score) for label, score in classes if score >= _TAG]
    choices = {"choices": [label for label, _ in tags]}
    result = {"from_name": "classes", "to_name": "video", "type": "choices", "value": choices}
    prediction = {"model_version": model, "score": max((score for _, score in tags), default=0.0), "result": [result]}
    task: dict[str, Any] = {"data": {"video": address, "id": video}}
    return {**task, "predictions": [prediction] if tags else []}
