"""Finds the times of a recording in which nothing was recorded: jumps of its clock, losses, and joined recordings.

Rows of such a time would repeat one picture. In transport streams and other formats whose times may be discontinuous
(FFmpeg's flag AVFMT_TS_DISCONT), the packets behind the pause are moved, so that they go on after those before it. In
other formats the file is refused if the pause is so long that a picture would be in two rows.

A pause is what all streams have in common. If the sound goes on while no picture comes, a picture stands still, such as
a slide, and nothing is moved. A stream alone pauses if its packets were of an even rate before: pictures that come at
uneven times, or that last until the next one, may stand still. So the packets behind a long interval wait until the
other streams have come as far.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from yt8m.extractors.decoder_messages import DecodeError
from yt8m.extractors.time_line import clock

_SHORTEST = 0.5  # seconds; shorter pauses are left as they are
_LONGEST_LEFT = 10.0  # seconds; longer pauses are refused also if rows are so rare that no picture would be in two
_STATED = 60.0  # seconds; `time_line` judges longer intervals of formats without discontinuities
_USUAL_INTERVALS = 3  # a pause is longer than this number of the longest intervals before it
_LEAST_PACKETS = 4  # so many packets of a stream come before a pause: the intervals of fewer packets say little
_EVEN = 1.5  # packets of an even rate come in no interval longer than this number of the length of one
# A stream alone that has uneven times pauses if an interval is longer than these seconds, and than this number of the
# longest intervals before it.
_JUMP, _JUMP_INTERVALS = 10.0, 10
_LOOK_AHEAD = 5.0  # seconds of one stream behind the pause after which another stream without packets has ended


@dataclasses.dataclass
class _Stream:
    """The decoding times of the packets of a stream so far, in seconds.

    Attributes:
      longest: the longest interval between two packets; pauses are not counted.
      length: the length of the last packet, or the last interval if it does not say.
      judged: the time of the last packet that was found to follow after no pause, though its interval is long.
    """

    last: float = 0.0
    longest: float = 0.0
    length: float = 0.0
    packets: int = 0
    judged: float | None = None

    def pauses_before(self, time: float) -> bool:
        """Whether the interval from the last packet to one at this time is unusually long."""
        most = max(_SHORTEST, _USUAL_INTERVALS * self.longest)
        return self.packets >= _LEAST_PACKETS and time - self.last > most and time != self.judged

    def is_even_until(self, interval: float) -> bool:
        """Whether packets came at an even rate before an interval for which the last packet does not last."""
        return 0 < self.longest <= _EVEN * self.length and interval > _USUAL_INTERVALS * self.length

    def jumps_by(self, interval: float) -> bool:
        """Whether an interval is so long that also packets of uneven times have jumped."""
        return interval > max(_JUMP, _JUMP_INTERVALS * max(self.longest, self.length))

    def add(self, packet: Any) -> None:
        """Takes the next packet."""
        time = _time_of(packet)
        interval = time - self.last
        self.longest = max(self.longest, interval) if self.packets and time != self.judged else self.longest
        self.length = float(packet.duration * packet.time_base) if packet.duration else max(interval, 0.0)
        self.last, self.packets = time, self.packets + 1


class Pauses:
    """Closes or refuses the pauses of one file.

    Args:
      indices: those of the streams of pictures and sound that are decoded.
      is_moved: whether packets behind a pause are moved; otherwise the file is refused.
      origin: the container's time, in seconds, at which the video starts, for messages.
    """

    def __init__(
        self, indices: Iterable[int], is_moved: bool, per_second: float, origin: float, note: Callable[[str], None]
    ) -> None:
        self._streams = {index: _Stream() for index in indices}
        self._is_moved, self._origin, self._note = is_moved, origin, note
        # In a pause of up to two rows, each row has a picture of its own, from before or behind the pause.
        self._most = min(_LONGEST_LEFT, max(_SHORTEST, 2 / per_second))
        self._packets: Iterator[Any] = iter(())
        self._ahead = deque[Any]()  # packets that were read to judge a pause
        self._moved_by = 0.0  # seconds by which packets that are not read yet will be moved

    def closed(self, packets: Iterable[Any]) -> Iterator[Any]:
        """Yields the packets of PyAV in the same order; those behind pauses are moved."""
        self._packets = iter(packets)
        while (packet := self._next()) is not None:
            stream = self._streams.get(packet.stream.index)
            if stream is not None and packet.dts is not None:
                if stream.pauses_before(_time_of(packet)):
                    self._judge(stream, packet)
                stream.add(packet)
            yield packet

    def _next(self) -> Any:
        return self._ahead.popleft() if self._ahead else self._read()

    def _read(self) -> Any:
        packet = next(self._packets, None)
        if packet is not None:
            _move(packet, self._moved_by)
        return packet

    def _judge(self, stream: _Stream, packet: Any) -> None:
        """Judges the long interval between the last packet of a stream and this one, which follows it."""
        start, end = stream.last, _time_of(packet)
        if not self._is_moved and end - start > _STATED:
            return
        pause = self._common_pause(stream, packet)
        length = pause[1] - pause[0] if pause else 0.0
        if pause is None or length <= (_SHORTEST if self._is_moved else self._most):
            stream.judged = end
        elif self._is_moved:
            self._close(stream, packet, pause)
        else:
            raise DecodeError(
                f"the recording pauses for {length:.1f} seconds at {clock(pause[0] - self._origin)}, and rows of that "
                "time would repeat one picture; write it again by ffmpeg -i FILE OUT, without the pause with "
                "-vf setpts=N/FRAME_RATE/TB -af asetpts=N/SR/TB, or with the picture in each frame with -fps_mode cfr"
            )

    def _close(self, stream: _Stream, packet: Any, pause: tuple[float, float]) -> None:
        """Moves the packet and all later ones behind the pause."""
        seconds = min(0.0, pause[0] + stream.length - pause[1])
        self._note(f"times jump at {clock(pause[0] - self._origin)}")
        for each in (packet, *self._ahead):
            if each.dts is None or _time_of(each) >= pause[1]:
                _move(each, seconds)
        self._moved_by += seconds
        if stream.pauses_before(_time_of(packet)):  # the other streams had no longer pause
            stream.judged = _time_of(packet)

    def _common_pause(self, stream: _Stream, packet: Any) -> tuple[float, float] | None:
        """The (start, end) that all streams have in common; None if another stream goes on."""
        start, end = stream.last, _time_of(packet)
        others = [(index, other) for index, other in self._streams.items() if other is not stream and other.packets]
        pauses = [self._pause_of(index, other, start, end) for index, other in others]
        common = [pause for pause in pauses if pause]
        if common and len(common) == len([pause for pause in pauses if pause is not None]):
            return max([start, *(pause[0] for pause in common)]), min([end, *(pause[1] for pause in common)])
        if any(pause is not None for pause in pauses):
            return None
        if self._is_moved:
            is_pause = stream.is_even_until(end - start) or stream.jumps_by(end - start)
        else:  # silence repeats no picture
            is_pause = stream.is_even_until(end - start) and packet.stream.type == "video"
        return (start, end) if is_pause else None

    def _pause_of(self, index: int, other: _Stream, start: float, end: float) -> tuple[float, float] | tuple[()] | None:
        """The pause of another stream at about the time of that from `start` to `end`.

        Returns:
          (start, end) of its pause; () if it goes on; None if it has ended before.
        """
        last = other.last
        for each in self._read_ahead(end):
            if each.stream.index != index or each.dts is None:
                continue
            time = _time_of(each)
            overlap = min(time, end) - max(last, start)
            is_long = time - last > max(_SHORTEST, _USUAL_INTERVALS * other.longest)
            if is_long and overlap > min(end - start, time - last) / 2:
                return last, time
            last = max(last, time)
            if last >= end:
                return ()
        return () if last >= (start + end) / 2 else None

    def _read_ahead(self, end: float) -> Iterator[Any]:
        """Yields the packets after the one that is judged, until one stream has gone on for long after the pause."""
        for place in itertools.count():
            if place == len(self._ahead):
                packet = self._read()
                if packet is None:
                    return
                self._ahead.append(packet)
            each = self._ahead[place]
            yield each
            if each.dts is not None and _time_of(each) > end + _LOOK_AHEAD:
                return


def _time_of(packet: Any) -> float:
    return float(packet.dts * packet.time_base)


def _move(packet: Any, seconds: float) -> None:
    """Moves the stamps of a packet of PyAV."""
    if seconds:
        units = round(seconds / float(packet.time_base))
        packet.dts = None if packet.dts is None else packet.dts + units
        packet.pts = None if packet.pts is None else packet.pts + units
