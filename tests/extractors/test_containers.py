from __future__ import annotations

import io
import pathlib
import struct

import made_videos
import pytest

from yt8m.extractors.containers import states_length


def box(kind: bytes, size: int) -> bytes:
    return struct.pack(">I4s", size + 8, kind) + bytes(size)


def check(content: bytes) -> str:
    try:
        states_length(io.BytesIO(content), ValueError)
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
    assert "339 of 340 bytes" in check(large[:-1])
    to_the_end = box(b"ftyp", 16) + struct.pack(">I4s", 0, b"mdat") + bytes(30)
    assert check(to_the_end) == ""
    assert check(whole + b"\0\0\0\0 appended bytes") == ""
    fragments = box(b"ftyp", 16) + box(b"moov", 100) + (box(b"moof", 20) + box(b"mdat", 50)) * 3
    assert check(fragments + fragments) == ""  # FFmpeg reads both
    for joined in (whole + whole, fragments + whole):
        assert check(joined).startswith("it is several recordings in one file")


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
    assert "99 of 100 bytes" in check(whole[:99])
    assert check(b"") == "it is empty"
    assert check(b"OggS" + bytes(100)) == check(b"x") == ""


@pytest.mark.promise("X7")
@pytest.mark.parametrize("ending", sorted({*made_videos.CODECS, *made_videos.SOUND_CODECS} - {"flac"}))
def test_no_beginning_of_a_file_is_whole(tmp_path: pathlib.Path, ending: str) -> None:
    """Of MPEG streams only between packets; flac states its duration alone."""
    picture = made_videos.grey if ending in made_videos.CODECS else None
    path = made_videos.write(tmp_path / f"clip.{ending}", picture, made_videos.tone("square"), 2.0)
    content = pathlib.Path(path).read_bytes()
    packet = {"ts": 188, "mpg": 2048, "mpeg": 2048}.get(ending, 0)
    assert check(content) == ""
    for size in range(4096, len(content), 997):
        assert check(content[:size]).startswith("it is cut") or (packet and size % packet == 0), size


def test_what_a_live_recording_states() -> None:
    fragment = box(b"ftyp", 16) + box(b"moov", 50) + box(b"moof", 20) + box(b"mdat", 60)
    assert not states_length(io.BytesIO(fragment), ValueError)
    assert states_length(io.BytesIO(fragment + box(b"mfra", 8)), ValueError)
    tag = b"\x09" + (5).to_bytes(3, "big") + bytes(7) + bytes(5) + (16).to_bytes(4, "big")
    flv = b"FLV\x01\x05" + (9).to_bytes(4, "big") + bytes(4) + tag * 3
    assert not states_length(io.BytesIO(flv), ValueError)
    assert "72 of 73 bytes" in check(flv[:-1])
    properties = bytes.fromhex("a1dcab8c47a9cf118ee400c00c205365") + bytes(24) + (500).to_bytes(8, "little")
    asf = bytes.fromhex("3026b2758e66cf11") + bytes(20) + properties
    assert not states_length(io.BytesIO(asf + bytes(40) + b"\1" + bytes(400)), ValueError)
    assert "476 of 500 bytes" in check(asf + bytes(400))


def test_a_large_avi_has_several_lists() -> None:
    lists = [b"RIFF" + struct.pack("<I", 92) + kind + bytes(88) for kind in (b"AVI ", b"AVIX")]
    assert check(b"".join(lists)) == ""
    assert "199 of 200 bytes" in check(b"".join(lists)[:-1])
    assert not states_length(io.BytesIO(b"RIFF" + bytes(4) + b"WAVE" + bytes(88)), ValueError)


def test_an_end_code_states_the_end_of_a_program_stream() -> None:
    pack = b"\0\0\1\xba\x44" + bytes(8) + b"\xf8"
    stream = pack + b"\0\0\1\xe0" + (100).to_bytes(2, "big") + bytes(100)
    assert not states_length(io.BytesIO(stream), ValueError)
    assert states_length(io.BytesIO(stream + b"\0\0\1\xb9"), ValueError)
    assert "119 of 120 bytes" in check(stream[:-1])
