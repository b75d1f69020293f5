"""Detects video files that were cut, from the lengths that their containers state.

A decoder reads a cut file up to the cut without an error. Most containers state sizes, or mark their end, so a cut can
be detected. Transport streams, raw streams, and many program streams and live recordings state no length, so a cut
cannot be detected in them.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

# The endings of the names of video and sound files. In a folder that the user names, files with these endings are used.
ENDINGS = (
    *(".mp4", ".m4v", ".mov", ".webm", ".mkv", ".avi", ".mpg", ".mpeg", ".ts", ".flv", ".wmv", ".ogv", ".3gp"),
    *(".mp3", ".m4a", ".wav", ".flac", ".ogg", ".opus"),
)

# Endings of other video and sound files. In a folder, such files are used only if a pattern or a table names them.
OTHER_ENDINGS = (
    *(".gif", ".m2ts", ".mts", ".y4m", ".vob", ".m2v", ".m1v", ".asf", ".rm", ".rmvb", ".mxf", ".dv", ".ogm", ".divx"),
    *(".f4v", ".3g2", ".qt", ".wma", ".aac", ".ac3", ".aiff", ".au", ".amr", ".mka", ".oga"),
)

_TOLERANCE = 0.5  # so many seconds may be missing at the end of a stream, because containers round their durations
# FFmpeg's names of the formats that store a duration. Only for these does the decoder compare the duration with the end
# of the streams: for other formats, FFmpeg guesses the duration from the size of the file.
FORMATS_WITH_DURATION = ("mov,mp4,m4a,3gp,3g2,mj2", "matroska,webm", "avi", "wav", "asf", "mp4", "mov", "flac", "flv")

# The ids of EBML elements, of which Matroska files consist: the segment, and the header with which a file begins.
_SEGMENT, _EBML = b"\x18\x53\x80\x67", b"\x1a\x45\xdf\xa3"
_EBML_DURATIONS = (b"\x44\x89\x84", b"\x44\x89\x88")  # the element Duration, a number of 4 or 8 bytes
# The kinds of the box with which a file of the mp4 family begins; the kind is in the bytes 4 to 7.
_MP4_FIRST = (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"styp")
_ASF_HEADER = bytes.fromhex("3026b2758e66cf11")
_ASF_FILE_PROPERTIES = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365")
_PACK, _PROGRAM_END = b"\x00\x00\x01\xba", b"\x00\x00\x01\xb9"
TRANSPORT_SYNC = 0x47  # the byte with which each packet of a transport stream begins
_TRANSPORT = ((188, 0), (192, 4), (204, 0))  # (size of a packet in bytes, offset in it of TRANSPORT_SYNC)
_HEAD = 1 << 16  # number of bytes at the start that are searched for lengths and durations
_TAIL = 1 << 18  # number of bytes at the end that contain the last packs of a program stream


class Length(NamedTuple):
    """The length that a container states.

    Attributes:
      end: the offset in bytes at which the container's last part ends; 0 if no part states its size.
      has_second: whether a second recording follows, as in files that were joined by `cat`, of which FFmpeg reads the
        first alone.
      is_stated: whether the container states where it ends, or its duration, with which the decoder compares the end of
        the streams.
    """

    end: int
    is_stated: bool
    has_second: bool = False


class _Content(NamedTuple):
    """An open file, its first 64 kB, and its size in bytes."""

    file: BinaryIO
    head: bytes
    size: int


_UNKNOWN = Length(0, False)


def states_length(file: BinaryIO, error: type[Exception]) -> bool:
    """Refuses a file that is shorter than its container states.

    Returns:
      Whether the container states its length, which is compared here, or its duration, which the decoder compares. If
      not, it is not known whether the file was cut.
    """
    size = file.seek(0, io.SEEK_END)
    if not size:
        raise error("it is empty")
    file.seek(0)
    head = file.read(_HEAD)
    measures = (measure for is_format, measure in _LENGTHS if is_format(head))
    length = next(measures, _mp3_length)(_Content(file, head, size))
    if length.has_second:
        raise error(
            "it is several recordings in one file, as cat joins them, of which only the first would be read; take them "
            "one by one, or join them by ffmpeg -f concat"
        )
    if length.end > size:
        raise error(f"it is cut: it has {size} of {length.end} bytes")
    return length.is_stated


def refuse_early_end(container: Any, streams: Sequence[Any], ends: Mapping[int, float], error: type[Exception]) -> None:
    """Refuses a video whose streams end more than `_TOLERANCE` before the time that its container states.

    Args:
      container, streams: of PyAV.
      ends: {index of a stream: second of the video at which its last packet ends}.
    """
    if container.format.name not in FORMATS_WITH_DURATION:
        return
    stated = [
        (ends.get(stream.index, 0.0), float(stream.duration * stream.time_base))
        for stream in streams
        if stream.duration
    ]
    if container.duration and not stated:
        start = max(0.0, (container.start_time or 0) / 1e6)
        stated = [(max(ends.values(), default=0.0), container.duration / 1e6 - start)]
    for end, stated_end in stated:
        if stated_end - end > _TOLERANCE:
            raise error(f"it is cut: it has {end:.1f} of {stated_end:.1f} seconds")


def _mp4_length(content: _Content) -> Length:
    """ISO base media (mp4): each box states its size.

    A file of fragments (boxes `moof`) states its end only if a box `mfra` follows the last one. FFmpeg reads a second
    header (`moov`) only if fragments follow it.
    """
    offset, kinds = 0, list[bytes]()
    while offset < content.size:
        content.file.seek(offset)
        start = content.file.read(16)
        length, kind = struct.unpack(">I4s", start[:8].ljust(8, b"\0"))
        if len(start) >= 8 and not all(0x20 <= byte < 0x7F or byte == 0xA9 for byte in kind):
            break  # not a box, but appended bytes
        if len(start) < 8:
            length = 8
        elif length == 1:
            length = int.from_bytes(start[8:], "big") if len(start) == 16 else 16
        elif length == 0:  # the box extends to the end of the file
            length = content.size - offset
        if length < 8:
            break
        kinds.append(kind)
        offset += length
    headers = [place for place, kind in enumerate(kinds) if kind == b"moov"]
    has_second = len(headers) > 1 and b"moof" not in kinds[headers[-1] :]
    return Length(offset, b"moof" not in kinds or b"mfra" in kinds, has_second)


def _matroska_length(content: _Content) -> Length:
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
    """Reads the size of an EBML element; None if it is marked as unknown (all bits are one) or damaged."""
    first_byte = file.read(1)
    if not first_byte or not first_byte[0]:
        return None
    count = 8 - first_byte[0].bit_length()
    tail = file.read(count)
    if len(tail) < count:
        return None
    value = int.from_bytes(bytes([first_byte[0] & ((1 << (7 - count)) - 1)]) + tail, "big")
    return None if value == (1 << 7 * (count + 1)) - 1 else value


def _riff_length(content: _Content) -> Length:
    """AVI and WAVE: each RIFF list states its size; a large AVI file has several RIFF lists."""
    offset = 0
    while offset < content.size:
        content.file.seek(offset)
        kind, length = struct.unpack("<4sI", content.file.read(8).ljust(8, b"\0"))
        if kind != b"RIFF":
            break
        if offset and content.head[8:12] == b"WAVE":
            return Length(offset, True, has_second=True)
        if length in (0, 0xFFFFFFFF):  # the muxer did not know the length yet
            return _UNKNOWN
        offset += 8 + length + length % 2
    return Length(offset - length % 2 if offset > content.size else offset, True)


def _ogg_length(content: _Content) -> Length:
    """Ogg: each page states its size, and whether it is the first or the last page of its stream (RFC 3533)."""
    offset, streams = 0, set[bytes]()
    while offset < content.size:
        content.file.seek(offset)
        page = content.file.read(27 + 255)
        if page[:4] != b"OggS"[: len(page)]:
            return _UNKNOWN
        if len(page) < 27 or len(page) < 27 + page[26]:
            return Length(offset + 27 + 255, False)
        streams.add(page[14:18])
        if page[5] & 4:
            streams.discard(page[14:18])
        offset += 27 + page[26] + sum(page[27 : 27 + page[26]])
    return Length(offset, not streams)


def _flv_length(content: _Content) -> Length:
    """FLV: each tag states its size; most muxers state the size of the file or its duration in the first tag."""
    offset = int.from_bytes(content.head[5:9], "big") + 4
    while offset < content.size:
        content.file.seek(offset)
        if content.file.read(1) == b"F":  # the signature FLV; a tag begins with a number below 32
            return Length(offset, True, has_second=True)
        offset += 11 + int.from_bytes(content.file.read(3), "big") + 4
    stated = {}
    for name in (b"filesize", b"duration"):
        after = content.head.partition(name + b"\0")[2]  # the byte 0 says that a number of 8 bytes follows
        stated[name] = struct.unpack(">d", after[:8])[0] if len(after) >= 8 else 0.0
    return Length(max(offset, int(stated[b"filesize"])), any(value > 0 for value in stated.values()))


def _program_stream_length(content: _Content) -> Length:
    """MPEG program stream: each packet in a pack states its size; an end code may follow the last pack."""
    content.file.seek(max(0, content.size - _TAIL))
    tail = content.file.read()
    tail_offset = content.size - len(tail)
    offset = tail.find(_PACK)
    while 0 <= offset < len(tail):
        code = tail[offset : offset + 4]
        if code == _PROGRAM_END:
            return Length(tail_offset + offset + 4, True)
        if code == _PACK:
            has_stuffing = tail[offset + 4 : offset + 5] >= b"\x40"  # MPEG-2
            offset += 14 + (tail[offset + 13] & 7) if has_stuffing and offset + 13 < len(tail) else 12
        elif code[:3] == b"\0\0\1":
            length = tail[offset + 4 : offset + 6]
            offset += 6 + (int.from_bytes(length, "big") if len(length) == 2 else 0)
        else:
            return Length(content.size + 4 - len(code), False)
    return Length(tail_offset + max(offset, 0), False)


def _asf_length(content: _Content) -> Length:
    """ASF (wmv): the file properties state the size, unless the file is a broadcast."""
    offset = content.head.find(_ASF_FILE_PROPERTIES)
    if offset < 0 or content.head[offset + 88] & 1:
        return _UNKNOWN
    end = int.from_bytes(content.head[offset + 40 : offset + 48], "little")
    content.file.seek(end)
    return Length(end, True, has_second=content.file.read(len(_ASF_HEADER)) == _ASF_HEADER)


def _transport_stream_length(content: _Content) -> Length:
    """MPEG transport stream: no length is stated, but all packets have the same size, so a part of one shows a cut."""
    packet, _ = transport_packets(content.head)
    return Length(-(-content.size // packet) * packet, False)


def transport_packets(head: bytes) -> tuple[int, int]:
    """The size of the packets of a transport stream, and the offset in each of `TRANSPORT_SYNC`; 0, 0 for other files.

    Args:
      head: the first bytes of the file, five packets of the largest size or more.
    """
    for packet, offset in _TRANSPORT:
        marks = head[offset : offset + 5 * packet : packet]
        if len(marks) > 1 and set(marks) == {TRANSPORT_SYNC}:
            return packet, offset
    return 0, 0


def _flac_length(content: _Content) -> Length:
    """FLAC: states its number of samples, in 36 bits; 0 means that the encoder did not know the number."""
    return Length(0, int.from_bytes(content.head[18:26], "big") % (1 << 36) > 0)


def _mp3_length(content: _Content) -> Length:
    """MP3, and files of unknown formats: many MP3 files state their size in the first frame, after the tag ID3."""
    first_frame = 0
    if content.head[:3] == b"ID3" and len(content.head) >= 10:
        first_frame = 10 + sum(byte << shift for byte, shift in zip(content.head[6:10], (21, 14, 7, 0), strict=True))
    content.file.seek(first_frame)
    frame = content.file.read(200)
    offset = max(frame.find(b"Xing"), frame.find(b"Info"))
    if frame[:1] != b"\xff" or offset < 0 or len(frame) < offset + 16 or frame[offset + 7] & 3 != 3:
        return _UNKNOWN
    return Length(first_frame + int.from_bytes(frame[offset + 12 : offset + 16], "big"), True)


# For each format: (whether a file with these first bytes has the format, the function that finds the stated length).
_LENGTHS: tuple[tuple[Callable[[bytes], bool], Callable[[_Content], Length]], ...] = (
    (lambda head: head[4:8] in _MP4_FIRST, _mp4_length),
    (lambda head: head[:4] == _EBML, _matroska_length),
    (lambda head: head[:4] == b"RIFF" and head[8:12] in (b"AVI ", b"WAVE"), _riff_length),
    (lambda head: head[:4] == b"OggS", _ogg_length),
    (lambda head: head[:3] == b"FLV", _flv_length),
    (lambda head: head[:4] == _PACK, _program_stream_length),
    (lambda head: head[:8] == _ASF_HEADER, _asf_length),
    (lambda head: head[:4] == b"fLaC", _flac_length),
    (lambda head: any(transport_packets(head)), _transport_stream_length),
)
