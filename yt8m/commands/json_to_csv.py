"""`yt8m json-to-csv`: the JSON lines of batch prediction as a prediction file."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from yt8m import options, storage
from yt8m.commands.ground_truth import files
from yt8m.config import flags
from yt8m.errors import RunError, UsageError
from yt8m.options import option
from yt8m.program import run_main
from yt8m.records import prediction_files
from yt8m.records.shards import id_bytes, id_text
from yt8m.storage import json_text

_MOST = 1 << 31  # no class and no prediction comes near it
_KEYS = ("video_id", "class_indexes", "predictions")


@dataclass(frozen=True)
class JsonToCsvConfig:
    """What `yt8m json-to-csv` is asked for."""

    json_prediction_files_pattern: str = option("", "files of JSON lines: a glob, local or gs://")
    csv_output_file: str = option("", "where the predictions go (CSV)")
    top_k: int = option(20, "predictions listed per video", minimum=1)

    def __post_init__(self) -> None:
        options.check(self)
        for name in ("json_prediction_files_pattern", "csv_output_file"):
            if not getattr(self, name):
                raise UsageError(f"--{name} is missing.")


def main(argv: list[str]) -> int:
    """Converts as the flags say; returns the exit status.

    Raises:
      UsageError: no file matches.
      RunError: a line is no prediction; it is named, and nothing is written.
    """
    purpose = "Makes one prediction file of the JSON lines that batch prediction wrote."
    config = flags.read(JsonToCsvConfig, "yt8m json-to-csv", purpose, argv)
    paths = files(config.json_prediction_files_pattern, "json_prediction_files_pattern")
    with storage.write_atomic(config.csv_output_file, "w") as file:
        file.write(prediction_files.HEADER_LINE)
        seen: set[str] = set()
        for path in paths:
            for line in prediction_files.read_lines(path):
                file.write(_row(line, seen, config.top_k))
        if not seen:
            raise RunError(f"{config.json_prediction_files_pattern} holds no prediction.")
    print(f"{len(seen)} predictions are in {config.csv_output_file}", file=sys.stderr)
    return 0


def _row(line: prediction_files.TextLine, seen: set[str], top_k: int) -> str:
    """The row of a line, whose video joins those that were `seen`."""
    video_id, classes, scores = _fields(line)
    if video_id in seen:
        line.refuse(f"video {video_id!r} has a line already; give each video one.")
    seen.add(video_id)
    ranked = sorted(zip(classes, scores, strict=True), key=lambda pair: (-pair[1], pair[0]))[:top_k]
    return prediction_files.written(video_id, ranked)


def _fields(line: prediction_files.TextLine) -> tuple[str, list[int], list[float]]:
    try:
        found = json_text.parse(line.text)
    except ValueError as error:
        line.refuse(f"it is no JSON ({error}).")
    if not isinstance(found, dict) or not all(key in found for key in _KEYS):
        line.refuse(f"expected one object with {', '.join(_KEYS)}; found {prediction_files.shown(line.text)}.")
    video_id, classes, scores = (found[key] for key in _KEYS)
    if not isinstance(video_id, str) or not video_id or not _is_text(video_id):
        line.refuse(f"video_id is {video_id!r}; expected text that is not empty.")
    if not _are_numbers(classes, int) or not _are_numbers(scores, float) or len(classes) != len(scores):
        line.refuse("expected as many finite predictions as whole class_indexes.")
    if len(set(classes)) < len(classes):
        line.refuse("a class is repeated in class_indexes; give each class once a video.")
    return id_text(id_bytes(video_id.encode())), classes, scores


def _is_text(text: str) -> bool:
    """Whether it can be encoded: JSON may name half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _are_numbers(values: Any, kind: type) -> bool:
    """Whether it is a list of numbers; whole, not negative and fit for a class, or finite."""
    if not isinstance(values, list):
        return False
    allowed = (int,) if kind is int else (int, float)
    return all(
        isinstance(value, allowed)
        and not isinstance(value, bool)
        and (0 <= value < _MOST if kind is int else -_MOST < value < _MOST)
        for value in values
    )


if __name__ == "__main__":
    sys.exit(run_main("yt8m json-to-csv", main))
