"""Detects video files that were cut, by what their containers state about their length.

A decoder reads a cut file up to the cut without an error. Most containers state sizes, or mark their end, so a
cut shows. Transport streams, raw streams, and many program streams and live recordings state nothing: whether they were
cut cannot be known.
"""

from __future__ import annotations

import io
import itertools
import struct
from collections.abc import Callable
from typing import BinaryIO, NamedTuple

# The endings of the names of video and sound files.
ENDINGS = (
    *(".mp4", ".m4v", ".mov", ".webm", ".mkv", ".avi", ".mpg", ".mpeg", ".ts", ".flv", ".wmv", ".ogv", ".3gp"),
    *(".mp3", ".m4a", ".wav", ".flac", ".ogg", ".opus"),
)

# Endings of further videos and sounds, which are taken from folders only if a pattern or a table names them.
OTHER_ENDINGS = (
    *(".gif", ".m2ts", ".mts", ".y4m", ".vob", ".m2v", ".m1v", ".asf", ".rm", ".rmvb", ".mxf", ".dv", ".ogm", ".divx"),
    *(".f4v", ".3g2", ".qt", ".wma", ".aac", ".ac3", ".aiff", ".au", ".amr", ".mka", ".oga"),
)

# FFmpeg's names of the formats whose durations are written by the muxer, not guessed from the size of the file.
STATES_DURATION = ("mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "avi", "wav", "asf", "mp4", "mov", "flac", "flv")

_SEGMENT, _EBML = b"\x18\x53\x80\x67", b"\x1a\x45\xdf\xa3"
_EBML_DURATIONS = (b"\x44\x89\x84", b"\x44\x89\x88")  # the element Duration, a number of 4 or 8 bytes
_MP4_FIRST = (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"styp")
_ASF_HEADER = bytes.fromhex("3026b2758e66cf11")
_ASF_FILE_PROPERTIES = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")
_PACK, _PROGRAM_END = b"\x00\x00\x01\xba", b"\x00\x00\x01\xb9"
_TRANSPORT = ((188, 0), (192, 4), (204, 0))  # sizes of packets, and the places of their first bytes, 0x47
_HEAD = 1 << 16  # bytes that are searched for what the container states
_TAIL = 1 << 18  # bytes in which the last packs of a program stream are


class Length(NamedTuple):
    """What a container states about its length.

    Attributes:
      end: the byte at which its last part ends; 0 if no part states its size.
      is_stated: whether it states where it ends, or its duration, which the decoder compares.
    """

    end: int
    is_stated: bool


class _Content(NamedTuple):
    """A file, its first bytes, and its size."""

    file: BinaryIO
    head: bytes
    size: int


_UNKNOWN = Length(0, False)


def states_length(file: BinaryIO, error: type[Exception]) -> bool:
    """Whether the container states its length, so that a file that was cut is noticed here, or by its duration.

    Raises:
      error: the file is empty, or shorter than its container says.
    """
    size = file.seek(0, io.SEEK_END)
    if not size:
        raise error("it is empty")
    file.seek(0)
    head = file.read(_HEAD)
    kinds = (length for kind, length in _LENGTHS if kind(head))
    length = next(kinds, _of_others)(_Content(file, head, size))
    if length.end > size:
        raise error(f"it is cut: it has {size} of {length.end} bytes")
    return length.is_stated


def _of_boxes(content: _Content) -> Length:
    """ISO base media (mp4): each box states its size. If there are fragments, a box `mfra` follows the last one."""
    place, kinds = 0, set[bytes]()
    while place < content.size:
        content.file.seek(place)
        start = content.file.read(16)
        length, kind = struct.unpack(">I4s", start[:8].ljust(8, b"\0"))
        if len(start) >= 8 and not all(0x20 <= byte < 0x7F or byte == 0xA9 for byte in kind):
            break  # not a box: bytes that somebody appended
        if len(start) < 8:
            length = 8
        elif length == 1:
            length = int.from_bytes(start[8:], "big") if len(start) == 16 else 16
        elif length == 0:  # up to the end of the file
            length = content.size - place
        if length < 8:
            break
        kinds.add(kind)
        place += length
    return Length(place, b"moof" not in kinds or b"mfra" in kinds)


def _of_segment(content: _Content) -> Length:
    """Matroska and WebM: the segment states its size, which is unknown in a live recording."""
    content.file.seek(4)
    header = _element_size(content.file)
    if header is None:
        return _UNKNOWN
    content.file.seek(header, io.SEEK_CUR)
    is_segment = content.file.read(4) == _SEGMENT
    length = _element_size(content.file) if is_segment else None
    if length is not None:
        return Length(content.file.tell() + length, True)
    return Length(0, any(element in content.head for element in _EBML_DURATIONS))


def _element_size(file: BinaryIO) -> int | None:
    """The size of an EBML element; None if it is unknown (all bits are one) or damaged."""
    first = file.read(1)
    if not first or not first[0]:
        return None
    count = 8 - first[0].bit_length()
    tail = file.read(count)
    if len(tail) < count:
        return None
    value = int.from_bytes(bytes([first[0] & ((1 << (7 - count)) - 1)]) + tail, "big")
    return None if value == (1 << 7 * (count + 1)) - 1 else value


def _of_riff(content: _Content) -> Length:
    """AVI and WAVE: a large AVI file has several RIFF lists."""
    place = 0
    while place < content.size:
        content.file.seek(place)
        kind, length = struct.unpack("<4sI", content.file.read(8).ljust(8, b"\0"))
        if kind != b"RIFF":
            break
        if length in (0, 0xFFFFFFFF):  # it was not known yet
            return _UNKNOWN
        place += 8 + length + length % 2
    return Length(place - length % 2 if place > content.size else place, True)


def _of_pages(content: _Content) -> Length:
    """Ogg: each page tells its size, and whether it is the first or the last one of its stream (RFC 3533)."""
    place, streams = 0, set[bytes]()
    while place < content.size:
        content.file.seek(place)
        page = content.file.read(27 + 255)
        if page[:4] != b"OggS"[: len(page)]:
            return _UNKNOWN
        if len(page) < 27 or len(page) < 27 + page[26]:
            return Length(place + 27 + 255, False)
        streams.add(page[14:18])
        if page[5] & 4:
            streams.discard(page[14:18])
        place += 27 + page[26] + sum(page[27 : 27 + page[26]])
    return Length(place, not streams)


def _of_tags(content: _Content) -> Length:
    """FLV: each tag states its size; most muxers state the size of the file or its duration in the first tag."""
    place = int.from_bytes(content.head[5:9], "big") + 4
    while place < content.size:
        content.file.seek(place + 1)
        place += 11 + int.from_bytes(content.file.read(3), "big") + 4
    stated = {}
    for name in (b"filesize", b"duration"):
        after = content.head.partition(name + b"\0")[2]  # a 0 says that a number of 8 bytes follows
        stated[name] = struct.unpack(">d", after[:8])[0] if len(after) >= 8 else 0.0
    return Length(max(place, int(stated[b"filesize"])), any(value > 0 for value in stated.values()))


def _of_packs(content: _Content) -> Length:
    """MPEG program stream: each packet in a pack states its size; an end code may follow the last one."""
    content.file.seek(max(0, content.size - _TAIL))
    tail = content.file.read()
    before = content.size - len(tail)
    place = tail.find(_PACK)
    while 0 <= place < len(tail):
        code = tail[place : place + 4]
        if code == _PROGRAM_END:
            return Length(before + place + 4, True)
        if code == _PACK:
            has_stuffing = tail[place + 4 : place + 5] >= b"\x40"  # MPEG-2
            place += 14 + (tail[place + 13] & 7) if has_stuffing and place + 13 < len(tail) else 12
        elif code[:3] == b"\0\0\1":
            length = tail[place + 4 : place + 6]
            place += 6 + (int.from_bytes(length, "big") if len(length) == 2 else 0)
        else:
            return Length(content.size + 4 - len(code), False)
    return Length(before + max(place, 0), False)


def _of_asf(content: _Content) -> Length:
    """ASF (wmv): the file properties have its size, unless it is a broadcast."""
    place = content.head.find(_ASF_FILE_PROPERTIES)
    if place < 0 or content.head[place + 88] & 1:
        return _UNKNOWN
    return Length(int.from_bytes(content.head[place + 40 : place + 48], "little"), True)


def _of_transport(content: _Content) -> Length:
    """MPEG transport stream: it has packets of one size, and states nothing."""
    packet = next(packet for packet, place in _TRANSPORT if _is_transport(content.head, packet, place))
    return Length(-(-content.size // packet) * packet, False)


def _is_transport(head: bytes, packet: int, place: int) -> bool:
    marks = head[place : place + 5 * packet : packet]
    return len(marks) > 1 and set(marks) == {0x47}


def _of_flac(content: _Content) -> Length:
    """FLAC: the number of samples, of 36 bits, is 0 if it was not known."""
    return Length(0, int.from_bytes(content.head[18:26], "big") % (1 << 36) > 0)


def _of_others(content: _Content) -> Length:
    """MP3: many files state their size in the first frame, after the tag ID3. Other formats state nothing."""
    first = 0
    if content.head[:3] == b"ID3" and len(content.head) >= 10:
        first = 10 + sum(byte << shift for byte, shift in zip(content.head[6:10], (21, 14, 7, 0), strict=True))
    content.file.seek(first)
    frame = content.file.read(200)
    place = max(frame.find(b"Xing"), frame.find(b"Info"))
    if frame[:1] != b"\xff" or place < 0 or len(frame) < place + 16 or frame[place + 7] & 3 != 3:
        return _UNKNOWN
    return Length(first + int.from_bytes(frame[place + 12 : place + 16], "big"), True)


_LENGTHS: tuple[tuple[Callable[[bytes], bool], Callable[[_Content], Length]], ...] = (
    (lambda head: head[4:8] in _MP4_FIRST, _of_boxes),
    (lambda head: head[:4] == _EBML, _of_segment),
    (lambda head: head[:4] == b"RIFF" and head[8:12] in (b"AVI ", b"WAVE"), _of_riff),
    (lambda head: head[:4] == b"OggS", _of_pages),
    (lambda head: head[:3] == b"FLV", _of_tags),
    (lambda head: head[:4] == _PACK, _of_packs),
    (lambda head: head[:8] == _ASF_HEADER, _of_asf),
    (lambda head: head[:4] == b"fLaC", _of_flac),
    (lambda head: any(itertools.starmap(lambda *packet: _is_transport(head, *packet), _TRANSPORT)), _of_transport),
)
