"""Detects video files that were cut, by the sizes that their containers state.

A decoder reads a cut file up to the cut without an error. In mp4 (ISO base media), Matroska and WebM, and AVI each part
states its size, so a part that ends after the end of the file shows that it was cut.
"""

from __future__ import annotations

import io
import struct
from typing import BinaryIO

# The endings of the names of video and sound files.
ENDINGS = (
    *(".mp4", ".m4v", ".mov", ".webm", ".mkv", ".avi", ".mpg", ".mpeg", ".ts", ".flv", ".wmv", ".ogv", ".3gp"),
    *(".mp3", ".m4a", ".wav", ".flac", ".ogg", ".opus"),
)

# FFmpeg's names of the formats whose durations are written by the muxer, not guessed from the size of the file.
STATES_DURATION = ("mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "avi", "wav", "asf", "mp4", "mov")

_SEGMENT, _EBML = b"\x18\x53\x80\x67", b"\x1a\x45\xdf\xa3"
_MOST_BOXES = 100_000
_MP4_FIRST = (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"styp")


def refuse_cut(file: BinaryIO, error: type[Exception]) -> None:
    """Raises `error` if the file is empty or shorter than its container says; other formats are not checked."""
    size = file.seek(0, io.SEEK_END)
    if not size:
        raise error("it is empty")
    file.seek(0)
    start = file.read(12)
    stated = None
    if start[4:8] in _MP4_FIRST:
        stated = _end_of_boxes(file, size)
    elif start[:4] == _EBML:
        stated = _end_of_segment(file)
    elif start[:4] == b"RIFF" and start[8:12] in (b"AVI ", b"WAVE"):
        (length,) = struct.unpack("<I", start[4:8])
        stated = length + 8 if length not in (0, 0xFFFFFFFF) else None
    if stated is not None and stated > size:
        raise error(f"it is cut: it has {size} of {stated} bytes")


def _end_of_boxes(file: BinaryIO, size: int) -> int | None:
    """The byte at which the boxes of an ISO base media file end; None if they cannot be followed."""
    place = 0
    for _ in range(_MOST_BOXES):
        if place >= size:
            return place
        file.seek(place)
        head = file.read(16)
        if len(head) < 8:
            return place + 8
        length, kind = struct.unpack(">I4s", head[:8])
        if not all(0x20 <= byte < 0x7F or byte == 0xA9 for byte in kind):
            return None  # not a box: bytes that somebody appended
        if length == 1:
            if len(head) < 16:
                return place + 16
            (length,) = struct.unpack(">Q", head[8:])
        if length == 0:
            return size  # up to the end of the file
        if length < 8:
            return None
        place += length
    return None


def _end_of_segment(file: BinaryIO) -> int | None:
    """The byte at which the segment of a Matroska file ends; None if its size is unknown, as in a live recording."""
    file.seek(4)
    header = _element_size(file)
    if header is None:
        return None
    file.seek(header, io.SEEK_CUR)
    if file.read(4) != _SEGMENT:
        return None
    length = _element_size(file)
    return None if length is None else file.tell() + length


def _element_size(file: BinaryIO) -> int | None:
    """The size of an EBML element; None if it is unknown (all bits are one) or damaged."""
    first = file.read(1)
    if not first or not first[0]:
        return None
    count = 8 - first[0].bit_length()
    rest = file.read(count)
    if len(rest) < count:
        return None
    value = int.from_bytes(bytes([first[0] & ((1 << (7 - count)) - 1)]) + rest, "big")
    return None if value == (1 << 7 * (count + 1)) - 1 else value
