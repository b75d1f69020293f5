"""Prediction files (`VideoId,LabelConfidencePairs`): each line a video and its classes with scores."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from yt8m.errors import RunError
from yt8m.tools import text_lines

HEADER = b"VideoId,LabelConfidencePairs"


class Row(NamedTuple):
    """One video.

    Attributes:
      where: file and line, for complaints.
      video_id: as the file has it.
      classes: int32 [k], in the order of the file, each once.
      scores: float32 [k].
    """

    where: str
    video_id: str
    classes: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float32]


def read(path: str, num_classes: int) -> Iterator[Row]:
    """The rows of a prediction file, with or without its header, one in memory at a time.

    Raises:
      RunError: names the line: a video given twice, an unknown or repeated class, a word that is no
        number, CRLF, gzip, a last line that was cut short; or the file has no video.
    """
    seen: set[str] = set()
    for line in text_lines.read(path):
        if line.number == 1 and line.text == HEADER:
            continue
        if line.number == 1 and line.text.startswith(b"Class,"):
            line.refuse(f"a file of ranked segments; expected predictions for videos ({HEADER.decode()}).")
        row = parse(line, num_classes)
        if row.video_id in seen:
            line.refuse(
                f"video {row.video_id!r} stands in an earlier line already; give each video one line."
            )
        seen.add(row.video_id)
        yield row
    if not seen:
        raise RunError(f"{path} holds no prediction; expected lines `video,class score class score ...`.")


def parse(line: text_lines.Line, num_classes: int) -> Row:
    """One row; raises as `read`."""
    video_id, pairs = fields(line)
    return Row(f"{line.path}, line {line.number}", video_id, *_pairs(line, pairs, num_classes))


def fields(line: text_lines.Line) -> tuple[str, bytes]:
    """The id, in quotes where it holds a comma or quotes itself, and the pairs."""
    video_id, comma, pairs = line.text.rpartition(b",")
    if not comma or not video_id:
        line.refuse(f"{text_lines.shown(line.text)}: expected `video,class score class score ...`.")
    text = video_id.decode("utf-8", "backslashreplace")
    return next(csv.reader([text]))[0] if text.startswith('"') else text, pairs


def _pairs(
    line: text_lines.Line, pairs: bytes, num_classes: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    words = pairs.split()
    try:
        classes = np.array(words[::2], np.bytes_).astype(np.int64)
        scores = np.array(words[1::2], np.bytes_).astype(np.float32)
    except (ValueError, OverflowError):
        line.refuse(f"{text_lines.shown(pairs)}: expected whole class numbers and scores by turns.")
    if len(classes) != len(scores) or not np.isfinite(scores).all():
        line.refuse(
            f"{len(words)} words, or a score that is no number; expected a finite score for each class."
        )
    if len(classes) and not 0 <= classes.min() <= classes.max() < num_classes:
        line.refuse(
            f"classes {classes.min()} to {classes.max()}; expected 0 to {num_classes - 1} (--num_classes)."
        )
    if len(np.unique(classes)) < len(classes):
        line.refuse("a class is repeated; give each class once a video.")
    return classes.astype(np.int32), scores
