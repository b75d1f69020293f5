"""`yt8m from-mediapipe` and `yt8m json-to-csv`: convert files of other programs.

MediaPipe's YouTube-8M graph writes one serialized SequenceExample for each video. `yt8m from-mediapipe` converts these
files to one shard of frame records.

Batch prediction writes JSON lines. `yt8m json-to-csv` converts them to CSV. A line has one video: `{"video_id": "abcd",
"class_indexes": [3, 1], "predictions": [0.7, 0.2]}`. Or it has a list of videos: `{"video_id": ["abcd"],
"class_indexes": [[3, 1]], "predictions": [[0.7, 0.2]]}`. The published converter takes only the first video of a list;
this one writes a row for each.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from yt8m import options, storage
from yt8m.errors import RunError
from yt8m.options import option, path_option
from yt8m.records import data_format, prediction_files, shards
from yt8m.records.opened_data import open_data
from yt8m.records.prediction_files import TextLine
from yt8m.records.record_parser import first_unfit
from yt8m.records.shards import Feature, Record, id_bytes, id_text

FEATURE_NAMES = {
    "RGB/feature/floats": "rgb",
    "AUDIO/feature/floats": "audio",
}  # {MediaPipe's name: name in frame records}
_KEYS = ("video_id", "class_indexes", "predictions")  # of the object in a line of JSON
_LIMIT = 1 << 31  # every class number and prediction must be below this, and a prediction at least minus this


def from_mediapipe(config: FromMediapipeConfig) -> int:
    """Writes the SequenceExamples of MediaPipe, one file for each video, into one shard; returns the exit status."""
    paths = open_data(config.data, flag="data").files
    path_of_id: dict[bytes, str] = {}
    with storage.write_atomic(config.out) as shard:
        for path in paths:
            payload = convert_file(path, config.keep_floats)
            video_id = shards.parse(payload, with_lists=False).id()
            if path_of_id.setdefault(video_id, path) != path:
                raise RunError(
                    f"{path} and {path_of_id[video_id]} both hold the video {shards.id_text(video_id)}; "
                    "give each video its own id (without one, the name of the file is the id)."
                )
            shard.write(shards.framed(payload))
    print(f"{len(paths)} videos are in {config.out}", file=sys.stderr)
    return 0


@dataclass(frozen=True)
class FromMediapipeConfig(options.Checked):
    """The flags of `yt8m from-mediapipe`."""

    data: str = path_option(
        "files with one serialized SequenceExample each: a glob, local or gs://",
        aliases=("input_pattern",),
        is_required=True,
    )
    out: str = path_option("the TFRecord shard to write", aliases=("output_file",), is_required=True)
    keep_floats: bool = option(
        False, "write the floats under MediaPipe's names, not bytes as in YouTube-8M (four times as large)"
    )


def convert_file(path: str, keep_floats: bool = False) -> bytes:
    """Converts one file to a serialized frame record with id, labels and features, one frame per second.

    If the SequenceExample has no id, the id is the name of the file without its ending. If the features differ in their
    numbers of frames, the longer ones are cut to the shortest, because MediaPipe's last audio window may reach past the
    last picture.

    Args:
      keep_floats: whether the features stay floats under MediaPipe's names; otherwise they become bytes for the range
        -2 to 2 under YouTube-8M's names.
    """
    try:
        record = shards.parse(storage.read_bytes(path))
    except ValueError as error:
        raise RunError(f"{path} is not a serialized SequenceExample: {error}.") from error
    features = {name: _parse_frames(record.lists[name], name, path) for name in FEATURE_NAMES if name in record.lists}
    if not features:
        list_names = ", ".join(record.lists) or "no feature list"
        raise RunError(f"{path} holds {list_names}; expected {' or '.join(FEATURE_NAMES)}.")
    shortest = min(map(len, features.values()))
    lists: dict[str, Sequence[bytes]] = {}
    for name, frames in features.items():
        if keep_floats:
            lists[name] = [shards.float_feature(frame) for frame in frames[:shortest]]
        else:
            lists[FEATURE_NAMES[name]] = shards.frame_features(
                data_format.quantized(frames[:shortest], data_format.PUBLISHED)
            )
    return shards.sequence_example(_encode_context(record, path), lists)


def _encode_context(record: Record, path: str) -> dict[str, bytes]:
    """Encodes the id and the labels of a video as {name: serialized Feature}.

    Without an id in the record, the id is the name of the file `path` without its ending.
    """
    name = os.path.splitext(os.path.basename(path))[0]
    context = {"id": shards.bytes_feature(record.id() or os.fsencode(name))}
    labels = record.values("labels")
    if any(type(label) is not int or label < 0 for label in labels):
        raise RunError(f"{path}: labels holds {str(labels)[:60]}; expected whole numbers from 0, the classes.")
    if labels:
        context["labels"] = shards.int64_feature(labels)
    return context


def _parse_frames(features: Sequence[Feature], name: str, path: str) -> npt.NDArray[np.float32]:
    """Returns the frames of one feature list, float32 [T, size]."""
    rows = [np.array(feature.values(), np.float32) for feature in features if feature.kind == "float"]
    sizes = {len(row) for row in rows}
    problem = ""
    if not features:
        problem = "it has no frame"
    elif len(rows) < len(features) or 0 in sizes:
        problem = "a frame holds no floats"
    elif len(sizes) > 1:
        problem = f"frames hold {min(sizes)} to {max(sizes)} floats"
    if problem:
        raise RunError(f"{path}: {name} must hold the same number of floats in each frame; {problem}.")
    frames = np.array(rows, np.float32)
    if shards.unfit_values(frames):
        raise RunError(f"{path}: {name}: {first_unfit(frames)}; no value may be {shards.UNFIT}.")
    return frames


def json_to_csv(config: JsonToCsvConfig) -> int:
    """Converts the JSON lines of a batch prediction to one CSV file of predictions; returns the exit status."""
    paths = open_data(config.predictions, flag="predictions").files
    converted_ids: set[str] = set()
    with storage.write_atomic(config.out, "w") as file:
        file.write(prediction_files.HEADER_LINE)
        for line in (line for path in paths for line in prediction_files.read_lines(path)):
            for video_id, classes, scores in _parse_videos(line):
                if video_id in converted_ids:
                    line.refuse(f"video {video_id!r} has a line already; give each video one line.")
                converted_ids.add(video_id)
                best = sorted(zip(classes, scores, strict=True), key=lambda pair: (-pair[1], pair[0]))
                file.write(prediction_files.prediction_line(video_id, best[: config.top_k], _six_digits))
        if not converted_ids:
            raise RunError(f"{config.predictions} holds no prediction; expected a line of JSON for each video.")
    print(f"{len(converted_ids)} predictions are in {config.out}", file=sys.stderr)
    return 0


@dataclass(frozen=True)
class JsonToCsvConfig(options.Checked):
    """The flags of `yt8m json-to-csv`."""

    predictions: str = path_option(
        "files of JSON lines: a glob, local or gs://", aliases=("json_prediction_files_pattern",), is_required=True
    )
    out: str = path_option("file for the predictions (CSV)", aliases=("csv_output_file",), is_required=True)
    top_k: int = option(20, "predictions listed per video", minimum=1)


def _parse_videos(line: TextLine) -> Iterator[tuple[str, list[int], list[float]]]:
    """Yields (id, classes, scores) of each video in a line of JSON."""
    try:
        prediction = storage.parse_json(line.text)
    except ValueError as error:
        line.refuse(f"it is not JSON ({error}).")
    if not isinstance(prediction, dict) or not all(key in prediction for key in _KEYS):
        line.refuse(f"expected one object with {', '.join(_KEYS)}; found {prediction_files.shown(line.text)}.")
    values = [prediction[key] for key in _KEYS]
    if not isinstance(values[0], list):
        values = [[value] for value in values]
    if not all(isinstance(value, list) and len(value) == len(values[0]) for value in values):
        line.refuse("video_id is a list; expected the same number of lists in class_indexes and in predictions.")
    for video_id, classes, scores in zip(*values, strict=True):
        if not isinstance(video_id, str) or not video_id or not _can_be_encoded(video_id):
            line.refuse(f"video_id is {video_id!r}; expected text that is not empty.")
        if not _are_numbers(classes, 0, (int,)) or not _are_numbers(scores, -_LIMIT, (int, float)):
            line.refuse("expected whole numbers in class_indexes and finite numbers in predictions.")
        if len(classes) != len(scores):
            line.refuse(f"{len(classes)} class_indexes and {len(scores)} predictions; expected equal numbers.")
        if len(set(classes)) < len(classes):
            line.refuse("a class is repeated in class_indexes; give each class once per video.")
        yield id_text(id_bytes(video_id.encode())), classes, scores


def _six_digits(score: float) -> str:
    """The score with six digits after the point, as the published converter writes it; in full if these are all 0."""
    text = f"{score:f}"
    return text if float(text) or not score else f"{score:g}"


def _can_be_encoded(text: str) -> bool:
    """Whether the text can be encoded as UTF-8. JSON may hold half of a surrogate pair, which UTF-8 cannot encode."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _are_numbers(values: Any, least: int, kinds: tuple[type, ...]) -> bool:
    """Whether `values` is a list of numbers of the types `kinds`, each at least `least` and below `_LIMIT`."""
    return isinstance(values, list) and all(type(value) in kinds and least <= value < _LIMIT for value in values)
