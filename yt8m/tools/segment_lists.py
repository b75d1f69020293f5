"""Segment submissions (`Class,Segments`): each line a class and its segments, best first."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from yt8m.errors import RunError
from yt8m.record_reader import id_text
from yt8m.tools import text_lines

HEADER = b"Class,Segments"

_FORBIDDEN = (b",", b"\t", b"\r", b'"')  # none of them stands in a segment's name
_SEPARATOR = re.compile(r'[ ,"]')
_BLANK, _COLON, _ZERO = b" "[0], b":"[0], b"0"[0]
_DIGITS = 6  # of a start: more than eleven days
_GRID = 5  # seconds between two starts


class ClassLine(NamedTuple):
    """One line of a submission.

    Attributes:
      number: of the class.
      ranks: {`video:start`: its place in the line, from 0}, in the order of the line.
    """

    number: int
    ranks: dict[bytes, int]


def video_name(video_id: bytes) -> bytes:
    """The part of a segment's name before `:start`: the id's text, with ` `, `,` and `"` as `\\xHH`."""
    return _SEPARATOR.sub(lambda found: f"\\x{ord(found[0]):02x}", id_text(video_id)).encode()


def read(path: str, classes: Collection[int], any_start: bool = False) -> Iterator[ClassLine]:
    """The lines of a submission, with or without its header, one in memory at a time.

    Args:
      path: of the file.
      classes: those that may stand there.
      any_start: starts need not be multiples of 5 seconds.

    Raises:
      RunError: names the line: an unknown or repeated class, a repeated segment, a bad start, a line
        that is no such line, CRLF, gzip, a last line that was cut short; or the file has no class.
    """
    seen: dict[int, int] = {}
    for line in text_lines.read(path):
        name, comma, segments = line.text.partition(b",")
        if line.number == 1 and name.strip() == b"Class":
            continue
        if line.number == 1 and name == b"VideoId":
            line.refuse(f"a file of predictions for videos; expected ranked segments ({HEADER.decode()}).")
        number = _class_of(line, name, classes)
        if not comma:
            line.refuse("there is no comma; expected `class,video:start video:start ...`.")
        if seen.setdefault(number, line.number) != line.number:
            line.refuse(f"class {number} stands in line {seen[number]} already; give each class one line.")
        yield ClassLine(number, _ranks(line, segments, any_start))
    if not seen:
        raise RunError(f"{path} lists no class; expected lines `class,video:start video:start ...`.")


def _class_of(line: text_lines.Line, name: bytes, classes: Collection[int]) -> int:
    number = text_lines.number(name)
    if number not in classes:
        line.refuse(
            f"{text_lines.shown(name)} is none of the {len(classes)} classes that segments are rated for; "
            "give class numbers, or the file of yours by --segment_label_ids_file."
        )
    return number


def _ranks(line: text_lines.Line, text: bytes, any_start: bool) -> dict[bytes, int]:
    """The segments of a line by name; all of them checked."""
    text = text.strip(b" ")
    segments = text.split(b" ") if text else []
    bad = _first_bad(text, segments, any_start) if text else -1
    if bad >= 0:
        _refuse_segment(line, segments[bad])
    ranks = dict(zip(segments, range(len(segments)), strict=True))
    if len(ranks) < len(segments):
        twice = next(name for place, name in enumerate(segments) if ranks[name] != place)
        line.refuse(f"the segment {text_lines.shown(twice)} is repeated; give each segment once a class.")
    return ranks


def _refuse_segment(line: text_lines.Line, segment: bytes) -> None:
    what = f"{text_lines.shown(segment)} is no segment" if segment else "two blanks in a row"
    line.refuse(
        f"{what}; expected video:start with a start of 0, {_GRID}, {2 * _GRID}, ... seconds, and one blank "
        "from one to the next."
    )


def _first_bad(text: bytes, segments: list[bytes], any_start: bool) -> int:
    """Place of the first word that is no `video:start`, or -1; at once for the whole line.

    A Python loop over the words would take ten times as long, and a submission has 100 million.
    """
    if any(one in text for one in _FORBIDDEN):
        return next(at for at, name in enumerate(segments) if any(one in name for one in _FORBIDDEN))
    letters = np.frombuffer(text, np.uint8)
    ends = np.append(np.flatnonzero(letters == _BLANK), len(letters))
    starts = np.append(0, ends[:-1] + 1)
    colons = np.append(-1, np.flatnonzero(letters == _COLON))
    colon = colons[np.searchsorted(colons, ends) - 1]  # the last one before the end of the word
    length = ends - colon - 1
    good = (colon > starts) & (length >= 1) & (length <= _DIGITS)
    good[good] &= _are_starts(letters, colon[good] + 1, length[good], any_start)
    return -1 if good.all() else int(np.argmin(good))


def _are_starts(
    letters: npt.NDArray[np.uint8],
    first: npt.NDArray[np.int64],
    length: npt.NDArray[np.int64],
    any_start: bool,
) -> npt.NDArray[np.bool_]:
    """Which of the numbers, by first digit and length, are written as a start is."""
    good = (letters[first] != _ZERO) | (length == 1)
    for place in range(int(length.max(initial=0))):
        here = letters[first[place < length] + place] - _ZERO  # wraps around below "0"
        good[place < length] &= here <= 9
    last = letters[first + length - 1]
    return good if any_start else np.asarray(good & ((last - _ZERO) % _GRID == 0))
