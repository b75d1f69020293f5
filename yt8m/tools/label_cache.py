"""Ratings as text, `videoid:start,class,score` a line, which suffices without the records."""

from __future__ import annotations

import numpy as np

from yt8m import storage
from yt8m.tools import text_lines
from yt8m.tools.ground_truth import Ratings


def write(path: str, found: Ratings) -> None:
    """Writes the cache, whole or not at all."""
    with storage.write_atomic(path) as file:
        for segment, number, score in zip(
            found.segments, found.classes.tolist(), found.scores.tolist(), strict=True
        ):
            file.write(b"%s,%d,%s\n" % (segment, number, str(score).encode()))


def read(path: str) -> Ratings:
    """Reads a cache, of this project or of the published evaluator.

    Raises:
      RunError: names the line that is none.
    """
    segments, classes, scores = [], [], []
    for line in text_lines.read(path):
        segment, number, score = _fields(line)
        segments.append(segment)
        classes.append(number)
        scores.append(score)
    return Ratings(segments, np.array(classes, np.int64), np.array(scores, np.float64))


def _fields(line: text_lines.Line) -> tuple[bytes, int, float]:
    segment, _, rest = line.text.partition(b",")
    number, _, score = rest.partition(b",")
    video, colon, start = segment.rpartition(b":")
    try:
        value = float(score)
    except ValueError:
        value = -1.0
    if not (video and colon and start.isdigit() and number.isdigit() and 0 <= value <= 1):
        line.refuse(f"{text_lines.shown(line.text)} is no rating; expected `video:start,class,score`.")
    return segment, int(number), value
