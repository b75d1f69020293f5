"""Where a recording begins inside a transport stream: files that `cat`, or a download of pieces (HLS), has joined.

A transport stream numbers the packets of each of its streams from 0 to 15, again and again. The numbers have a gap
where packets were lost, and also where another recording begins, though nothing is missing there.
"""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from yt8m.extractors import containers

_HEAD = 1 << 10  # bytes at the start that show the size of the packets
_USUALLY_READ = 1 << 20  # bytes after a place in which a gap is looked for: a film may consist of a thousand pieces
_MOST_READ = 16 << 20  # so many if there is none in them
_NULL = 0x1FFF  # the number of the stream of packets that only fill space


def begins_at_gap(file: BinaryIO, place: int, stream: int) -> bool:
    """Whether a recording begins at the first gap in the numbers of a stream after a place.

    There each stream begins anew behind a table of the programs (PAT), and another stream has a gap too, or all numbers
    are 0.

    Args:
      file: a transport stream.
      place: the first byte of a packet.
      stream: the number by which the packets name their stream (PID).
    """
    for size in (_USUALLY_READ, _MOST_READ):
        headers = _headers(file, place, size)
        streams = (headers[:, 1] & 0x1F).astype(np.int64) << 8 | headers[:, 2]
        has_payload = (headers[:, 3] & 0x10 != 0) & (streams != _NULL)
        headers, streams = headers[has_payload], streams[has_payload]
        gaps = _gaps(streams, headers[:, 3] & 0x0F)
        of_stream = np.flatnonzero(streams == stream)
        at = next((number for number in of_stream if gaps[number]), None)
        if at is not None:
            previous = of_stream[of_stream < at][-1]
            tables = np.flatnonzero(streams[previous:at] == 0) + previous
            return any(_all_begin(headers[table : at + 1], streams[table : at + 1], gaps[table:at]) for table in tables)
    return False


def _headers(file: BinaryIO, place: int, most: int) -> NDArray[np.uint8]:
    """The headers, of four bytes, of the packets in `most` bytes from a place on; none of other files."""
    file.seek(0)
    size, offset = containers.transport_packets(file.read(_HEAD))
    if not size or place < 0:
        return np.zeros((0, 4), np.uint8)
    file.seek(place // size * size)
    content = file.read(most // size * size)
    packets = np.frombuffer(content, np.uint8)[: len(content) // size * size].reshape(-1, size)
    return packets[packets[:, offset] == containers.TRANSPORT_SYNC, offset : offset + 4]


def _gaps(streams: NDArray[np.int64], numbers: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which packets do not have the number after that of the packet before in their stream."""
    gaps = np.zeros(len(streams), bool)
    for stream in np.unique(streams):
        of_stream = np.flatnonzero(streams == stream)
        gaps[of_stream[1:]] = (numbers[of_stream[:-1]] + 1) & 0x0F != numbers[of_stream[1:]]
    return gaps


def _all_begin(headers: NDArray[np.uint8], streams: NDArray[np.int64], gaps: NDArray[np.bool_]) -> bool:
    """Whether the first packet of each stream begins a unit, and not in one stream alone behind a gap."""
    _, firsts = np.unique(streams, return_index=True)
    begins, numbers = headers[firsts, 1] & 0x40 != 0, headers[firsts, 3] & 0x0F
    others = firsts[firsts < len(gaps)]
    return bool(begins.all() and (gaps[others].any() or not numbers.any()))
