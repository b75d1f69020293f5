"""Checks the time stamps of a container, and moves those of joined recordings so that they go on after one another.

Recordings that are joined byte by byte, and recordings with a break, have time stamps that begin anew or jump.
Transport streams and similar formats may have such discontinuities (FFmpeg's flag AVFMT_TS_DISCONT). There, the packets
after a jump are moved, so that the first of them follows the last one before the jump. In other formats, time stamps
that go back or jump far mean that the file is damaged or badly written, and it is refused.

A picture may also stand still for long: a slide in a recording of a screen. Then the sound goes on, or there is none,
and the packet of the picture lasts until the next one, or pictures come at uneven times anyway. Where pictures and
sound pause together, or pictures of an even rate pause though the packet before has the length of one picture, there
was nothing to record, and rows of that time would repeat one picture: the file is refused.

The stamps by which this is judged are decoding time stamps, because presentation times are not sorted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from yt8m.extractors.decoder_messages import DecodeError

# Seconds by which time stamps may go back without being moved: some programs write them a little out of order.
_BACK = 0.5
# Seconds that time stamps may jump in formats with discontinuities, as in the program ffmpeg (-dts_delta_threshold),
# and in other formats, in which a picture may stand still for long.
_JUMP, _STILL = 10.0, 60.0
_LONG_STILL = 10.0  # seconds without a new picture of which a note says that the rows repeat one picture
_EVEN = 1.5  # pictures of an even rate come in no interval longer than this number of the length of one
_USUAL_INTERVALS = 10  # a jump is also longer than this number of the longest intervals before it
_LEAST_PACKETS = 4  # so many packets of a stream come before a jump: the intervals of fewer packets say little
_SAME_JUMP = 2.0  # seconds by which two streams may differ at the same jump


@dataclasses.dataclass
class _StreamTimes:
    """The times of the packets of a stream so far, in seconds.

    Attributes:
      last: the decoding time stamp of the last packet; None before the first one.
      longest: the longest interval between two packets, without jumps.
      covered: seconds that the last packet lasts; 0 if it does not say.
      pause: (start, end) of the last long interval.
    """

    last: float | None = None
    longest: float = 0.0
    interval: float = 0.0
    packets: int = 0
    end: float = 0.0
    jumps: int = 0
    covered: float = 0.0
    pause: tuple[float, float] = (0.0, 0.0)


class TimeLine:
    """Moves the packets of a file, in the order in which the container gives them.

    Args:
      closes_pauses: whether `pauses` has closed all jumps to later times in a format with discontinuities, so that what
        is left of them is a picture that stands still.
      origin: the container's time, in seconds, at which the video starts, for messages.
    """

    def __init__(
        self, has_discontinuities: bool, closes_pauses: bool, origin: float, note: Callable[[str], None]
    ) -> None:
        self._has_discontinuities, self._origin, self._note = has_discontinuities, origin, note
        self._jumps_back_only = has_discontinuities and closes_pauses
        self._streams: dict[int, _StreamTimes] = {}
        self._has_noted_still = False
        self._shifts = [0.0]  # seconds by which packets are moved, before the first jump and after each one

    def move(self, packet: Any) -> None:
        """Moves a packet of PyAV, whose stamps are changed."""
        if packet.dts is None:
            stream = self._streams.get(packet.stream.index)
            self._shift(packet, self._shifts[stream.jumps] if stream else 0.0)
            return
        time, stream = (
            float(packet.dts * packet.time_base),
            self._streams.setdefault(packet.stream.index, _StreamTimes()),
        )
        if stream.last is not None:
            self._follow(stream, packet.stream.type, time)
        shift = self._shifts[stream.jumps]
        stream.last, stream.packets = time, stream.packets + 1
        stream.covered = float(packet.duration * packet.time_base) if packet.duration else 0.0
        stream.end = time + shift + (stream.covered or stream.interval)
        self._shift(packet, shift)

    @staticmethod
    def _shift(packet: Any, seconds: float) -> None:
        if not seconds:
            return
        units = round(seconds / float(packet.time_base))
        packet.dts = None if packet.dts is None else packet.dts + units
        packet.pts = None if packet.pts is None else packet.pts + units

    def _follow(self, stream: _StreamTimes, kind: str, time: float) -> None:
        """Takes the interval to the next packet of a stream, at this time: it is usual, or a jump."""
        assert stream.last is not None
        interval = time - stream.last
        if not self._is_jump(stream, interval):
            if interval > max(_LONG_STILL, _USUAL_INTERVALS * stream.longest):
                self._refuse_pause(stream, kind, time)
                self._note_still(kind, stream.last, interval)
            stream.interval = max(interval, 0.0)
            stream.longest = max(stream.longest, interval)
        elif self._has_discontinuities:
            self._jump(stream, time, interval)
        elif interval < 0 or not self._stands_still(stream, kind):
            self._refuse(stream, interval)
        else:
            stream.longest = max(stream.longest, interval)
            self._note_still(kind, stream.last, interval)

    def _refuse_pause(self, stream: _StreamTimes, kind: str, time: float) -> None:
        """Refuses a long interval in which the recording paused, and in which no picture stood still."""
        if kind not in ("video", "audio") or self._has_discontinuities or stream.packets < _LEAST_PACKETS:
            return
        assert stream.last is not None
        stream.pause, interval = (stream.last, time), time - stream.last
        is_even = 0 < stream.longest <= _EVEN * stream.covered and interval > _USUAL_INTERVALS * stream.covered
        pauses = [other.pause for other in self._streams.values() if other is not stream]
        is_common = any(min(time, end) - max(stream.last, start) > _LONG_STILL - _SAME_JUMP for start, end in pauses)
        if is_common or (kind == "video" and is_even and not self._goes_on(stream, _LONG_STILL / 2)):
            raise DecodeError(
                f"the recording pauses for {interval:.1f} seconds at {clock(stream.last - self._origin)}, and rows of "
                "that time would repeat one picture; write it again without the pause, for example by "
                "ffmpeg -i FILE -vf setpts=N/FRAME_RATE/TB -af asetpts=N/SR/TB OUT"
            )

    def _note_still(self, kind: str, second: float, seconds: float) -> None:
        """Says once that there is no new picture for long: a still picture looks like a gap in a recording."""
        if kind == "video" and not self._has_noted_still:
            self._has_noted_still = True
            self._note(f"one picture for {seconds:.0f} seconds at {clock(second - self._origin)}")

    def _is_jump(self, stream: _StreamTimes, interval: float) -> bool:
        most = max(_JUMP if self._has_discontinuities else _STILL, _USUAL_INTERVALS * stream.longest)
        jumps_ahead = interval > most and stream.packets >= _LEAST_PACKETS and not self._jumps_back_only
        return interval < -_BACK or jumps_ahead

    def _jump(self, stream: _StreamTimes, time: float, interval: float) -> None:
        """Moves a stream to the next jump that another stream has made; if there is none, the stream makes one."""
        for jumps in range(stream.jumps + 1, len(self._shifts)):
            if abs(time + self._shifts[jumps] - stream.end) <= _SAME_JUMP:
                stream.jumps = jumps
                return
        self._shifts.append(stream.end - time)
        stream.jumps = len(self._shifts) - 1
        change = "begin anew" if interval < 0 else "jump"
        self._note(f"times {change} at {clock(stream.end - self._origin)}")

    def _stands_still(self, stream: _StreamTimes, kind: str) -> bool:
        """Whether a picture stands still while the sound goes on, or sound pauses while the pictures go on."""
        return kind in ("video", "audio") and self._goes_on(stream, _STILL / 2)

    def _goes_on(self, stream: _StreamTimes, seconds: float) -> bool:
        """Whether another stream goes on for these seconds after the last packet of a stream."""
        others = [other for other in self._streams.values() if other is not stream]
        return any(other.end > (stream.last or 0.0) + seconds for other in others)

    def _refuse(self, stream: _StreamTimes, interval: float) -> None:
        change = f"go back by {-interval:.1f}" if interval < 0 else f"jump by {interval:.1f}"
        place = clock((stream.last or 0.0) - self._origin)
        raise DecodeError(
            f"its time stamps {change} seconds at {place}, as in recordings that were joined; write it again, for "
            "example by ffmpeg"
        )


def clock(second: float) -> str:
    """A time as M:SS, or as H:MM:SS from an hour on."""
    whole = max(0, round(second))
    hours, minutes = divmod(whole // 60, 60)
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"
