from __future__ import annotations

import io
import struct

import pytest

from yt8m.extractors.containers import refuse_cut


def box(kind: bytes, size: int) -> bytes:
    return struct.pack(">I4s", size + 8, kind) + bytes(size)


def check(content: bytes) -> str:
    try:
        refuse_cut(io.BytesIO(content), ValueError)
    except ValueError as error:
        return str(error)
    return ""


def test_boxes_of_mp4() -> None:
    whole = box(b"ftyp", 16) + box(b"mdat", 500) + box(b"moov", 100)
    assert check(whole) == ""
    for size in range(12, len(whole)):
        at_border = size in (24, 24 + 508)  # between two boxes nothing is missing that a box tells of
        assert bool(check(whole[:size])) is not at_border
    large = box(b"ftyp", 16) + struct.pack(">I4sQ", 1, b"mdat", 16 + 300) + bytes(300)
    assert check(large) == ""
    assert check(large[:-1]) == "it is cut: it has 339 of 340 bytes"
    to_the_end = box(b"ftyp", 16) + struct.pack(">I4s", 0, b"mdat") + bytes(30)
    assert check(to_the_end) == ""
    assert check(whole + b"\0\0\0\0 appended bytes") == ""


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_segments_of_matroska(size: int) -> None:
    header = b"\x1a\x45\xdf\xa3\x84abcd"
    length = (200 | (1 << 7 * size)).to_bytes(size, "big") if size > 1 else bytes([0x80 | 100])
    body = bytes(200 if size > 1 else 100)
    whole = header + b"\x18\x53\x80\x67" + length + body
    assert check(whole) == ""
    assert check(whole[:-1]).startswith("it is cut")
    unknown = header + b"\x18\x53\x80\x67" + ((1 << (7 * size + 1)) - 1).to_bytes(size, "big")
    assert check(unknown + bytes(5)) == ""


def test_riff_and_others() -> None:
    whole = b"RIFF" + struct.pack("<I", 92) + b"AVI " + bytes(88)
    assert check(whole) == ""
    assert check(whole[:99]) == "it is cut: it has 99 of 100 bytes"
    assert check(b"") == "it is empty"
    assert check(b"OggS" + bytes(100)) == check(b"x") == ""
