"""Writes and reads prediction files (`VideoId,LabelConfidencePairs`): a video, its classes and scores a line.

The format of the challenges of 2017 and 2018. An id stands in a line as `record_reader.id_text` writes it, in
quotes if it holds a comma or quotes itself. An id is never empty, neither in records nor here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from yt8m.errors import RunError
from yt8m.record_reader import id_bytes, id_text
from yt8m.tools import text_lines

HEADER_LINE = "VideoId,LabelConfidencePairs\n"
HEADER = HEADER_LINE.rstrip().encode()
_QUOTED = re.compile(rb'"(?:[^"]|"")*"')


class PredictionWriter:
    """Writes rows in the order they come; a consumer of inference reports.

    Args:
      file: text, opened for writing.
      top_k: pairs a row; at most as many as there are columns.
    """

    def __init__(self, file: IO[Any], top_k: int) -> None:
        self._file, self._top_k = file, top_k
        self.count = 0
        self._file.write(HEADER_LINE)

    def __call__(self, reports: Mapping[str, np.ndarray]) -> None:
        """Adds one step: `video_ids` [B], `classes` and `scores` [B, k], best first.

        Raises:
          RunError: a score is NaN, or an id is empty.
        """
        classes, scores = (reports[name][:, : self._top_k] for name in ("classes", "scores"))
        if np.isnan(scores).any():
            raise RunError("the model's predictions hold NaN: its training diverged; nothing was written.")
        # One format for a whole row: half the time of one for each pair.
        form = " ".join(["%i %g"] * classes.shape[1])
        numbers: list[float] = [0] * (2 * classes.shape[1])
        for video_id, row_classes, row_scores in zip(
            reports["video_ids"].tolist(), classes.tolist(), scores.tolist(), strict=True
        ):
            numbers[::2], numbers[1::2] = row_classes, row_scores
            self._file.write(f"{_field(id_text(video_id))},{form % tuple(numbers)}\n")
        self.count += len(classes)


def written(video_id: str, pairs: Iterable[tuple[float, float]]) -> str:
    """One line, its end included.

    Args:
      video_id: the text of the id, as `id_text` or `Row` gives it.
      pairs: (class, score), best first.

    Raises:
      RunError: the id is empty.
    """
    return f"{_field(video_id)},{' '.join(['%i %g' % pair for pair in pairs])}\n"  # noqa: UP031


def _field(text: str) -> str:
    """The text of an id as a field of CSV."""
    if not text:
        raise RunError("a video has an empty id, so no line can be written for it. Give it an id.")
    if '"' not in text and "," not in text:
        return text
    return '"{}"'.format(text.replace('"', '""'))


class Row(NamedTuple):
    """One video.

    Attributes:
      where: file and line, for complaints.
      video_id: the text of the id, as `id_text` gives it.
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
      RunError: names the line: a video given twice, an empty id, an unknown or repeated class, a word that
        is no number, CRLF, gzip, a last line that was cut short; or the file has no video.
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
    """The text of the id and the pairs; raises as `read`.

    An id that another program wrote with raw control characters or bytes that are no UTF-8 gets the same
    text as one that was written here.
    """
    field, comma, pairs = line.text.rpartition(b",")
    if not comma:
        line.refuse(f"{text_lines.shown(line.text)}: expected `video,class score class score ...`.")
    if field.startswith(b'"'):
        if not _QUOTED.fullmatch(field):
            line.refuse(
                f"{text_lines.shown(field)}: the id's quotes do not match; write each quote in it twice."
            )
        field = field[1:-1].replace(b'""', b'"')
    if not field:
        line.refuse(f"{text_lines.shown(line.text)}: the id is empty; give each video an id.")
    return id_text(id_bytes(field)), pairs


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
