"""Damaged packets: those that cannot be decoded, and those that FFmpeg reads but marks as damaged.

A transport stream numbers its packets, so that FFmpeg marks one in which bytes were lost, though a decoder may conceal
the loss. The last packet before a place where recordings were joined, or where the file ends, has such a mark too: what
follows, and `transport_joins`, tell whether it is damage.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

from yt8m import storage
from yt8m.extractors import transport_joins
from yt8m.extractors.decoder_messages import DecodeError
from yt8m.extractors.time_line import clock

_GOES_ON = 0.5  # seconds for which a stream goes on after a packet with a mark, so that the mark means damage
_USUAL_INTERVALS = 3  # an interval that is longer than this number of the longest before is a jump


def decoding_errors() -> tuple[type[Exception], ...]:
    """The errors of FFmpeg: some are OSErrors or ValueErrors, and some, such as those of single codecs, are neither."""
    import av

    return av.error.FFmpegError, OSError, ValueError


class _Marked(NamedTuple):
    """A packet with a mark: its time in seconds, and its first byte in the file, negative if FFmpeg does not say it."""

    time: float
    place: int


class _Marks:
    """The packets of a stream with a mark, until it is known whether the recording goes on after them."""

    def __init__(self) -> None:
        self._last, self._longest = 0.0, 0.0
        self._marked: list[_Marked] = []

    def add(self, time: float, place: int, has_mark: bool) -> list[_Marked]:
        """Takes the time and the place of the next packet; returns the packets with a mark after which it goes on."""
        interval = time - self._last
        if interval < 0 or interval > max(_GOES_ON, _USUAL_INTERVALS * self._longest):
            self._marked.clear()
        else:
            self._longest = max(self._longest, interval)
        passed = self._marked if self._marked and time - self._marked[0].time >= _GOES_ON else []
        self._marked = [] if passed else self._marked
        self._marked += [_Marked(time, place)] if has_mark else []
        self._last = time
        return passed


class DamageCount:
    """Counts the damaged packets of a file, and refuses more of them than may be.

    Args:
      path: the file.
      counts_marks: whether packets count that FFmpeg marks as damaged, but that can be decoded.
      origin: the container's time, in seconds, at which the video starts, for messages.
    """

    def __init__(self, path: str, most: int, counts_marks: bool, origin: float) -> None:
        self.packets, self._path = 0, path
        self._most, self._counts_marks, self._origin = most, counts_marks, origin
        self._streams: dict[int, _Marks] = {}

    def watched(self, packets: Iterable[Any], indices: Collection[int]) -> Iterator[Any]:
        """Yields the packets of PyAV, and counts those of the streams with these indices that have the mark."""
        for packet in packets:
            if self._counts_marks and packet.stream.index in indices and packet.dts is not None:
                marks = self._streams.setdefault(packet.stream.index, _Marks())
                place = -1 if packet.pos is None else packet.pos
                for marked in marks.add(float(packet.dts * packet.time_base), place, packet.is_corrupt):
                    if not self._is_join(marked, packet.stream.id):
                        self._add(marked.time, "bytes of it are missing")
            yield packet

    def _is_join(self, marked: _Marked, stream: int) -> bool:
        """Whether another recording begins behind a packet with a mark, so that nothing of it is missing."""
        with storage.open_read(self._path) as file:
            return transport_joins.begins_at_gap(file, marked.place, stream)

    def add_undecodable(self, packet: Any, error: Exception) -> None:
        """Counts a packet that could not be decoded, unless it has the mark, so that it is counted for that."""
        if not (self._counts_marks and packet.is_corrupt):
            time = packet.dts if packet.dts is not None else packet.pts
            self._add(float(time * packet.time_base) if time is not None else None, _reason_of(error))

    def _add(self, time: float | None, reason: str) -> None:
        self.packets += 1
        if self.packets > self._most:
            place = f" at {clock(time - self._origin)}" if time is not None else ""
            packets = f"more than {self._most} packets, the last{place}" if self._most else f"a packet{place}"
            raise DecodeError(
                f"it is damaged: {packets} ({reason}); --max_bad_packets=N of extract and predict takes videos with up "
                "to N damaged packets"
            )


def _reason_of(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error).split("\n")[0][:200]
