"""Joined transport streams whose clock goes on are read; those that lost packets are refused."""

from __future__ import annotations

import io
import pathlib

import made_videos
import numpy as np
import pytest

from yt8m.extractors import transport_joins
from yt8m.extractors.base import Sound
from yt8m.extractors.decoder_messages import DecodeError, Request
from yt8m.extractors.decoding import decode

SIZE = 188  # bytes of a packet


@pytest.fixture(scope="module")
def pieces(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Three pieces of one recording, as a program that records in pieces writes them."""
    import av

    folder = tmp_path_factory.mktemp("pieces")
    stripes, tone = made_videos.shape("stripes", 96, 128), made_videos.tone("disc")
    whole = made_videos.write(folder / "whole.ts", stripes, tone, 9.0, options={"g": "30"})
    options = {"segment_time": "3", "segment_format": "mpegts"}
    with av.open(whole) as source, av.open(f"{folder}/%d.ts", "w", format="segment", options=options) as target:
        streams = {one.index: target.add_stream_from_template(one) for one in source.streams}
        for packet in source.demux():
            if packet.dts is not None:
                packet.stream = streams[packet.stream.index]
                target.mux(packet)
    return [(folder / f"{number}.ts").read_bytes() for number in range(3)]


def rows(path: pathlib.Path) -> int:
    request = Request(str(path), pictures=(None,), sounds=(Sound(16000, 16000, 16000),))
    return next(message.details["rows"] for message in decode(request) if message.kind == "end")


def with_prefixes(content: bytes) -> bytes:
    """Packets of 192 bytes, as cameras and Blu-ray discs write them: four bytes of time stand before each."""
    packets = np.frombuffer(content, np.uint8).reshape(-1, SIZE)
    return np.pad(packets, ((0, 0), (4, 0))).tobytes()


@pytest.mark.parametrize("has_prefixes", [False, True])
def test_joined_pieces_of_one_clock_are_whole(tmp_path: pathlib.Path, pieces: list[bytes], has_prefixes: bool) -> None:
    path = tmp_path / "joined.ts"
    content = b"".join(pieces)
    path.write_bytes(with_prefixes(content) if has_prefixes else content)
    assert rows(path) == 9


def streams_and_starts(content: bytes) -> tuple[np.ndarray, np.ndarray]:
    """The stream of each packet, and whether a unit begins in it."""
    packets = np.frombuffer(content, np.uint8).reshape(-1, SIZE)
    return (packets[:, 1] & 0x1F).astype(int) << 8 | packets[:, 2], packets[:, 1] & 0x40 != 0


VIDEO, SOUND = 256, 257  # the numbers that FFmpeg gives to streams


@pytest.mark.parametrize("stream", [VIDEO, SOUND])
def test_lost_packets_are_no_join(tmp_path: pathlib.Path, pieces: list[bytes], stream: int) -> None:
    streams, starts = streams_and_starts(pieces[0])
    inner = np.flatnonzero((streams == stream) & ~starts)
    lost = int(inner[len(inner) // 2])
    path = tmp_path / "lost.ts"
    path.write_bytes(pieces[0][: lost * SIZE] + pieces[0][(lost + 1) * SIZE :] + pieces[1])
    with pytest.raises(DecodeError, match=r"damaged: .*packet at 0:0[12]"):
        rows(path)


def test_the_end_of_a_sound_that_is_lost_before_a_table_of_programs_is_no_join(pieces: list[bytes]) -> None:
    """Behind the gap each stream begins a unit, but the numbers of the others go on."""
    streams, starts = streams_and_starts(pieces[0])
    tables = np.flatnonzero(streams == 0)
    own = np.flatnonzero(streams == SOUND)
    found = []
    for table in tables[1:]:
        last, following = own[own < table][-1:], own[own > table][:1]
        inside = streams[table : following[0] + 1] if following.size else np.zeros(0)
        begin = all(starts[table + np.flatnonzero(inside == one)[0]] for one in np.unique(inside))
        if last.size and following.size and not starts[last[0]] and begin:
            found.append(int(last[0]))
    assert found
    for last in found:
        content = pieces[0][: last * SIZE] + pieces[0][(last + 1) * SIZE :]
        place = int(own[own < last][-1]) * SIZE
        assert not transport_joins.begins_at_gap(io.BytesIO(content), place, SOUND)


def test_a_join_is_found_from_any_packet_before_it_and_only_there(pieces: list[bytes]) -> None:
    content = pieces[0] + pieces[1]
    streams, _ = streams_and_starts(pieces[0])
    for stream in (VIDEO, SOUND):
        own = np.flatnonzero(streams == stream)
        for number in (own[0], own[-1]):
            assert transport_joins.begins_at_gap(io.BytesIO(content), int(number) * SIZE, stream)
    assert not transport_joins.begins_at_gap(io.BytesIO(pieces[0]), 0, VIDEO)
    assert not transport_joins.begins_at_gap(io.BytesIO(content), -1, VIDEO)
    assert not transport_joins.begins_at_gap(io.BytesIO(b"no transport stream" * 200), 0, VIDEO)
    assert not transport_joins.begins_at_gap(io.BytesIO(b""), 0, VIDEO)
