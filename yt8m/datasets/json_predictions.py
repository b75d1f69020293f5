"""`yt8m json-to-csv`: converts the JSON lines of batch prediction into one prediction file.

A line has one video: `{"video_id": "abcd", "class_indexes": [3, 1], "predictions": [0.7, 0.2]}`. Or it has a list of
videos: `{"video_id": ["abcd"], "class_indexes": [[3, 1]], "predictions": [[0.7, 0.2]]}`. The published converter
takes only the first video of a list; this one writes a row for each.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from yt8m import options, storage
from yt8m.config.model_options import check_files
from yt8m.errors import RunError
from yt8m.options import option
from yt8m.records import prediction_files
from yt8m.records.prediction_files import TextLine
from yt8m.records.shards import id_bytes, id_text

_KEYS = ("video_id", "class_indexes", "predictions")
_LARGEST = 1 << 31  # upper limit; every class and prediction is smaller


def run(config: JsonToCsvConfig) -> int:
    """Converts the files that the flags name; returns the exit status.

    Raises:
      UsageError: no file matches.
      RunError: a line is not a valid prediction; the message names it, and nothing is written.
    """
    paths = check_files("predictions", config.json_prediction_files_pattern)
    seen: set[str] = set()
    with storage.write_atomic(config.csv_output_file, "w") as file:
        file.write(prediction_files.HEADER_LINE)
        for line in (line for path in paths for line in prediction_files.read_lines(path)):
            for video_id, classes, scores in _videos(line):
                if video_id in seen:
                    line.refuse(f"video {video_id!r} has a line already; give each video one line.")
                seen.add(video_id)
                best = sorted(zip(classes, scores, strict=True), key=lambda pair: (-pair[1], pair[0]))
                file.write(prediction_files.prediction_line(video_id, best[: config.top_k]))
        if not seen:
            raise RunError(f"{config.json_prediction_files_pattern} holds no prediction.")
    print(f"{len(seen)} predictions are in {config.csv_output_file}", file=sys.stderr)
    return 0


@dataclass(frozen=True)
class JsonToCsvConfig(options.Checked):
    """The flags of `yt8m json-to-csv`."""

    json_prediction_files_pattern: str = option(
        "",
        "files of JSON lines: a glob, local or gs://",
        flag="predictions",
        aliases=("json_prediction_files_pattern",),
        is_required=True,
        is_path=True,
    )
    csv_output_file: str = option(
        "", "file for the predictions (CSV)", flag="out", aliases=("csv_output_file",), is_required=True, is_path=True
    )
    top_k: int = option(20, "predictions listed per video", minimum=1)


def _videos(line: TextLine) -> Iterator[tuple[str, list[int], list[float]]]:
    """Yields (id, classes, scores) of each video in the line; raises `RunError` if it is not a valid prediction."""
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
        if not _are_numbers(classes, 0, (int,)) or not _are_numbers(scores, -_LARGEST, (int, float)):
            line.refuse("expected whole numbers in class_indexes and finite numbers in predictions.")
        if len(classes) != len(scores):
            line.refuse(f"{len(classes)} class_indexes and {len(scores)} predictions; expected equal numbers.")
        if len(set(classes)) < len(classes):
            line.refuse("a class is repeated in class_indexes; give each class once per video.")
        yield id_text(id_bytes(video_id.encode())), classes, scores


def _can_be_encoded(text: str) -> bool:
    """Whether the text can be encoded as UTF-8. JSON may hold half of a surrogate pair, which cannot."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _are_numbers(values: Any, least: int, kinds: tuple[type, ...]) -> bool:
    """Whether `values` is a list of numbers of these types, each at least `least` and below `_LARGEST`."""
    return isinstance(values, list) and all(type(value) in kinds and least <= value < _LARGEST for value in values)
