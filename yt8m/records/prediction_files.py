"""The text files of the YouTube-8M challenges: predictions for videos, and ranked segments.

    VideoId,LabelConfidencePairs            Class,Segments
    ab12,3 0.95 17 0.5                      3,ab12:0 ab12:35 cd34:10

Left, the challenges of 2017 and 2018: each line has a video with classes and their scores, best first. An id is never
empty; it is written as the text that `shards.id_text` returns, in quotes if it contains a comma or a quote. Right, the
challenge of 2019: each line has a class with its segments, each `video:start in seconds`, best first. The message about
an error in a file names the line.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from yt8m import file_kinds, storage
from yt8m.errors import RunError
from yt8m.records.foreign_predictions import plain_copy
from yt8m.records.shards import id_bytes, id_text

_MAX_DIGITS = 18  # every number of 18 digits fits an int64


def write_table(path: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Writes a CSV file that people may open in a spreadsheet, atomically; an existing file is replaced.

    Args:
      rows: the fields of each line. The caller must escape texts of unknown content, such as ids and names, by
        `spreadsheet_text`.
    """
    with storage.write_atomic(path, "w") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(header)
        lines.writerows(rows)


class TextLine(NamedTuple):
    """One line of a text file, with what an error message needs to name it.

    Attributes:
      number: the line number, from 1.
      text: the line without its line end.
    """

    path: str
    number: int
    text: bytes

    def refuse(self, problem: str) -> NoReturn:
        """Raises a `RunError` that names the file, the line number and `problem`."""
        raise RunError(f"{self.path}, line {self.number}: {problem}")


def read_lines(path: str, columns: Sequence[str] = ()) -> Iterator[TextLine]:
    """Yields the lines of a file, one in memory at a time; empty lines are skipped.

    Args:
      columns: the columns of the file, which may then be a table of any form; empty if its lines are no table.
    """
    with storage.open_read(plain_copy(path, columns) if columns else path) as file:
        for number, text in enumerate(file, 1):
            line = checked_line(path, number, text)
            if line.text:
                yield line


def checked_line(path: str, number: int, text: bytes) -> TextLine:
    """Makes a `TextLine` of one line of a file; raises like `read_lines`.

    Args:
      number: the line number, from 1.
    """
    line = TextLine(path, number, _without_marks(number, text))
    kind = file_kinds.find_kind(text[: file_kinds.SAMPLE_BYTES], may_be_records=True) if number == 1 else None
    if kind and not kind.is_text:
        line.refuse(f"the file holds no lines of predictions: {kind}.")
    if not text.endswith(b"\n"):
        line.refuse(
            "the last line has no line end, so the file may be cut short; write it again, or add the line end if the "
            "line is complete."
        )
    return line


def _without_marks(number: int, text: bytes) -> bytes:
    """A line without its line end, LF or CRLF, and the first one without the byte order mark of Windows."""
    line = text.removesuffix(b"\n").removesuffix(b"\r")
    return line.removeprefix(codecs.BOM_UTF8) if number == 1 else line


def whole_number(text: bytes) -> int:
    """The number that `text` spells in 1 to 18 decimal digits; -1 for any other text, such as an empty one."""
    return int(text) if text.isdigit() and len(text) <= _MAX_DIGITS else -1


def shown(text: bytes) -> str:
    """The first 40 bytes of `text` in quotes, for an error message; `...` stands for further bytes."""
    start = text[:40].decode("utf-8", "backslashreplace")
    return repr(start + ("..." if len(text) > 40 else ""))


PREDICTION_COLUMNS = ("VideoId", "LabelConfidencePairs")
HEADER_LINE = ",".join(PREDICTION_COLUMNS) + "\n"
PREDICTIONS_HEADER = HEADER_LINE.rstrip().encode()
# An id in quotes; a quote inside is written twice.
_QUOTED = re.compile(rb'"(?:[^"]|"")*"')


class PredictionWriter:
    """Writes a file of predictions for videos. An inference calls this object with the results of each batch, in order.

    Args:
      top_k: largest number of (class, score) pairs per video; fewer if the results have fewer columns.
    """

    def __init__(self, file: IO[Any], top_k: int) -> None:
        self._file, self.top_k = file, top_k
        self.count = 0
        self._file.write(HEADER_LINE)

    def __call__(self, reports: Mapping[str, np.ndarray]) -> None:
        """Writes the lines of one batch of B videos.

        Args:
          reports: `video_ids` (bytes [B]), `classes` (integers [B, k]) and `scores` (floats [B, k]); the classes of
            each video are sorted by score, best first.
        """
        classes, scores = (reports[name][:, : self.top_k] for name in ("classes", "scores"))
        # Formatting a whole row at once takes half the time of formatting each pair.
        line_format = " ".join(["%i %g"] * classes.shape[1])
        numbers: list[float] = [0] * (2 * classes.shape[1])
        for video_id, row_classes, row_scores in zip(
            reports["video_ids"].tolist(), classes.tolist(), scores.tolist(), strict=True
        ):
            numbers[::2], numbers[1::2] = row_classes, row_scores
            self._file.write(f"{_id_field(id_text(video_id))},{line_format % tuple(numbers)}\n")
        self.count += len(classes)


def prediction_line(
    video_id: str, pairs: Iterable[tuple[float, float]], score_text: Callable[[float], str] = "{:g}".format
) -> str:
    """One line of a file of predictions for videos, with its line end."""
    return f"{_id_field(video_id)},{' '.join(f'{int(number)} {score_text(score)}' for number, score in pairs)}\n"


def _id_field(text: str) -> str:
    """The text of an id as a field of CSV; raises `RunError` if it is empty."""
    if not text:
        raise RunError("a video has an empty id, so no line can be written for it. Give it an id.")
    if '"' not in text and "," not in text:
        return text
    return '"{}"'.format(text.replace('"', '""'))


class PredictionRow(NamedTuple):
    """The predictions for one video.

    Attributes:
      classes: int32 [k], in the order of the file, without duplicates.
      scores: float32 [k], the score of each of these classes.
    """

    where: str
    video_id: str
    classes: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float32]


def read_predictions(path: str, num_classes: int) -> Iterator[PredictionRow]:
    """Yields the rows of a file of predictions for videos, one in memory at a time; the header may be missing."""
    seen: set[str] = set()
    for line in read_lines(path, PREDICTION_COLUMNS):
        if line.number == 1 and line.text == PREDICTIONS_HEADER:
            continue
        if line.number == 1 and line.text.startswith(b"Class,"):
            line.refuse(
                f"the file has ranked segments; expected predictions for videos ({PREDICTIONS_HEADER.decode()})."
            )
        row = parse_prediction(line, num_classes)
        if row.video_id in seen:
            line.refuse(f"video {row.video_id!r} is in an earlier line already; give each video one line.")
        seen.add(row.video_id)
        yield row
    if not seen:
        raise RunError(f"{path} holds no prediction; expected lines `video,class score class score ...`.")


def parse_prediction(line: TextLine, num_classes: int) -> PredictionRow:
    """The predictions in one line, whose classes must be below `num_classes`; raises like `read_predictions`."""
    video_id, pairs = split_line(line)
    return PredictionRow(f"{line.path}, line {line.number}", video_id, *_parse_pairs(line, pairs, num_classes))


def split_line(line: TextLine) -> tuple[str, bytes]:
    """Splits a line with the predictions for a video; raises like `read_predictions`.

    Returns:
      (the text of the id, the unparsed classes and scores). If another program wrote control characters or bytes that
      are not UTF-8 into the id, they are escaped as `shards.id_text` does.
    """
    field, comma, pairs = line.text.rpartition(b",")
    if not comma:
        line.refuse(f"{shown(line.text)}: expected `video,class score class score ...`.")
    if field.startswith(b'"'):
        if not _QUOTED.fullmatch(field):
            line.refuse(f"{shown(field)}: the id's quotes do not match; write each quote in it twice.")
        field = field[1:-1].replace(b'""', b'"')
    if not field:
        line.refuse(f"{shown(line.text)}: the id is empty; give each video an id.")
    return id_text(id_bytes(field)), pairs


def _parse_pairs(
    line: TextLine, pairs: bytes, num_classes: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """Parses the text `class score class score ...` of a line; raises like `read_predictions`.

    Returns:
      (classes [k], scores [k]), in the order of the text.
    """
    words = pairs.split()
    try:
        classes = np.array(words[::2], np.bytes_).astype(np.int64)
        scores = np.array(words[1::2], np.bytes_).astype(np.float32)
    except (ValueError, OverflowError):
        line.refuse(f"{shown(pairs)}: expected alternating class numbers and scores.")
    if len(classes) != len(scores):
        line.refuse(f"class {classes[-1]} has no score; expected a score after each class.")
    if not np.isfinite(scores).all():
        number = classes[~np.isfinite(scores)][0]
        line.refuse(f"the score of class {number} is not finite; expected a finite score for each class.")
    if len(classes) and not 0 <= classes.min() <= classes.max() < num_classes:
        line.refuse(f"classes {classes.min()} to {classes.max()}; expected 0 to {num_classes - 1} (--num_classes).")
    if len(np.unique(classes)) < len(classes):
        line.refuse("a class is repeated; give each class once per video.")
    return classes.astype(np.int32), scores


SEGMENT_COLUMNS = ("Class", "Segments")
SEGMENTS_HEADER = ",".join(SEGMENT_COLUMNS).encode()

# What `video_name` escapes besides `id_text`.
_ESCAPED_SEPARATORS = {ord(sign): f"\\x{ord(sign):02x}" for sign in ' ,"'}
# Each pattern finds the space before the first segment that is not a well-formed `video:start`. In the first pattern,
# starts are multiples of 5 seconds. Six digits suffice for starts up to eleven days. One search checks all segments of
# a line: a Python loop would take ten times as long, and a file may have 100 million segments. A possessive repetition
# `(...)*+` would say the same, but Python before 3.11.5 matches it wrongly (its issue 106052).
_MALFORMED_ON_GRID = re.compile(rb' (?![^ ,\t\r"]+:(?:[05]|[1-9]\d{0,4}[05])(?: |\Z))')
_MALFORMED = re.compile(rb' (?![^ ,\t\r"]+:(?:0|[1-9]\d{0,5})(?: |\Z))')


class ClassLine(NamedTuple):
    """One line of ranked segments.

    Attributes:
      ranks: {`video:start`: rank of the segment, from 0}, in the order of the line.
    """

    number: int
    ranks: dict[bytes, int]


def video_name(video_id: bytes) -> bytes:
    """The video's name in a file of ranked segments: `id_text` of its id, with ` `, `,` and `"` escaped as `\\xHH`."""
    return id_text(video_id).translate(_ESCAPED_SEPARATORS).encode()


def read_segments(path: str, classes: Collection[int], any_start: bool = False) -> Iterator[ClassLine]:
    """Yields the lines of a file of ranked segments, one in memory at a time; the header may be missing.

    Args:
      any_start: whether a segment may start at any second; if False, starts must be multiples of 5 seconds.
    """
    seen: dict[int, int] = {}
    for line in read_lines(path, SEGMENT_COLUMNS):
        name, comma, segments = line.text.partition(b",")
        if line.number == 1 and name.strip() == b"Class":
            continue
        if line.number == 1 and name == b"VideoId":
            line.refuse(f"the file has predictions for videos; expected ranked segments ({SEGMENTS_HEADER.decode()}).")
        number = whole_number(name)
        if number not in classes:
            line.refuse(
                f"{shown(name)} is not one of the {len(classes)} classes for which segments are rated; "
                "give one of these classes, or name your own list of classes by --segment_label_ids_file."
            )
        if not comma:
            line.refuse("there is no comma; expected `class,video:start video:start ...`.")
        if seen.setdefault(number, line.number) != line.number:
            line.refuse(f"class {number} is in line {seen[number]} already; give each class one line.")
        yield ClassLine(number, _parse_ranks(line, segments, any_start))
    if not seen:
        raise RunError(f"{path} lists no class; expected lines `class,video:start video:start ...`.")


def _parse_ranks(line: TextLine, text: bytes, any_start: bool) -> dict[bytes, int]:
    """Parses the text `video:start video:start ...` of a line; raises like `read_segments`."""
    text = text.strip(b" ")
    segments = text.split(b" ") if text else []
    malformed = (_MALFORMED if any_start else _MALFORMED_ON_GRID).search(b" " + text)
    if segments and malformed:
        bad = segments[text.count(b" ", 0, malformed.start())]
        problem = f"{shown(bad)} is not a segment" if bad else "there are two spaces in a row"
        starts = "whole seconds from 0 to 999999" if any_start else "0, 5, 10, ... seconds"
        line.refuse(f"{problem}; expected video:start with a start of {starts}, and one space between two segments.")
    ranks = dict(zip(segments, range(len(segments)), strict=True))
    if len(ranks) < len(segments):
        repeated = next(name for rank, name in enumerate(segments) if ranks[name] != rank)
        line.refuse(f"the segment {shown(repeated)} is repeated; give each segment once per class.")
    return ranks
