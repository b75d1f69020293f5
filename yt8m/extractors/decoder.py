"""Decodes a part of a video in one pass: pictures and clips by the sampling rule, and sound as windows."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from operator import methodcaller
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m.extractors import containers
from yt8m.extractors.damaged_packets import DamageCount, decoding_errors
from yt8m.extractors.decoder_messages import DecodeError, Message, Request
from yt8m.extractors.pauses import Pauses
from yt8m.extractors.sampling import NearestClips, NearestFrames, WholeRows, Windows, nearest_rows, samples_of
from yt8m.extractors.sampling_rules import RULES, whole_rows
from yt8m.extractors.scaled_pictures import ScaledPicture, new_reformatters
from yt8m.extractors.time_line import TimeLine

# To decode a part of a video, the decoder first seeks to this many seconds before the start of the part, because
# decoding can begin only at a keyframe. The second value is tried if the first fails.
_SEEK_LEADS = (2.0, 15.0)
_SEEK_FROM = 5.0  # seconds; if the part starts earlier, decoding begins at the start of the video
_PERHAPS_CUT = "perhaps cut: its container does not say how long it is"
_USUAL_PIXELS = ("yuv420p", "yuvj420p", "nv12")  # FFmpeg's pixel formats that are not noted as unusual
_WINDOWS_AT_ONCE = 16  # largest number of windows of sound in a message
_TS_DISCONT = 0x0200  # FFmpeg's flag AVFMT_TS_DISCONT: times in files of the format may begin anew
# Seconds before 0 from which on a start counts as the start of the video. Codecs of sound need a little lead-in, whose
# times are negative in some containers.
_LEAD_IN = 0.1
_WIDEST_PIXEL = 10.0  # a container that states wider or higher pixels is not believed
_UNSORTED_CODECS = ("h264", "hevc")
_MOST_DELAYED = 64  # largest number of frames that a decoder holds back before it gives the first one


class VideoDecoder:
    """Decodes a part of a video, in one pass over an open container."""

    def __init__(self, container: Any, request: Request, states_length: bool) -> None:
        self._container, self._request, self._states_length = container, request, states_length
        self._rule = RULES[request.rule]
        self._notes: list[str] = []
        self._video = self._choose_stream(
            "video", [stream for stream in container.streams.video if not _is_cover(stream)]
        )
        self._audio = self._choose_stream("audio", list(container.streams.audio))
        self._streams = [stream for stream in (self._video, self._audio) if stream is not None]
        if not self._streams:
            raise DecodeError("it has neither pictures nor sound")
        starts = [
            float(stream.start_time * stream.time_base) for stream in self._streams if stream.start_time is not None
        ]
        self._origin = self._start_of_video(min(starts, default=0.0))
        self._ends: dict[int, float] = {}  # {index of a stream: second of the video at which its last packet ends}
        self._has_discontinuities = self._rule.checks_times and bool(container.format.flags & _TS_DISCONT)
        self._time_line = TimeLine(self._has_discontinuities, self._rule.closes_pauses, self._origin, self._note)
        row_limits = request.per_second, request.start, request.end, request.most
        self._sampler: NearestFrames[ScaledPicture] | WholeRows[ScaledPicture] = (
            WholeRows(*row_limits) if self._rule.counts_whole else nearest_rows(*row_limits)
        )
        self._rows = 0  # number of rows of the feature that have a picture so far
        self._reformatters, self._pixel_width = new_reformatters(), self._width_of_pixels()
        self._clips = [
            NearestClips[ScaledPicture, NDArray[np.uint8]](form, *row_limits, methodcaller("scaled", form.scaling))
            for form in request.clips
        ]
        least_share = 0.5 if self._rule.counts_whole else 0.0
        self._windows = [Windows(sound, request.start, request.seconds, least_share) for sound in request.sounds]
        self._intervals = [float("inf"), 0.0]  # the shortest and the longest time between two successive pictures
        self._last_time: float | None = None  # of the last picture
        self._blocked: set[int] = set()  # after a seek, the indices of the streams of which no packet was decoded yet
        self._damage = DamageCount(request.path, request.max_bad_packets, self._rule.closes_pauses, self._origin)
        self._errors = decoding_errors()
        # In AVI, packets have decoding times only. For codecs whose frames the demuxer cannot sort, it guesses other
        # times; but the k-th frame that is shown has the k-th of the decoding times.
        self._has_decoding_times = (
            self._rule.checks_times
            and container.format.name == "avi"
            and self._video is not None
            and self._video.codec_context.name in _UNSORTED_CODECS
        )
        self._decoding_times: deque[float] = deque()

    def _note(self, text: str) -> None:
        if text not in self._notes:
            self._notes.append(text)

    def _start_of_video(self, first: float) -> float:
        """The container's time of the start of the video, in seconds; `first` is that of the first packet."""
        return first if self._rule.checks_times and first < -_LEAD_IN else max(0.0, first)

    def _width_of_pixels(self) -> float:
        """How wide a pixel is shown, relative to its height; 1 if the rule takes pictures as they are stored."""
        ratio = self._video.sample_aspect_ratio if self._video is not None else None
        if not ratio or ratio == 1 or not self._rule.squares_pixels or not self._takes_pictures():
            return 1.0
        if not 1 / _WIDEST_PIXEL <= ratio <= _WIDEST_PIXEL:
            return 1.0
        self._note(f"non-square pixels ({ratio.numerator}:{ratio.denominator})")
        return float(ratio)

    def _choose_stream(self, kind: str, streams: list[Any]) -> Any:
        """The stream to decode; None, with a note, if no stream has a known codec.

        Of several such streams, this is FFmpeg's choice, or the first one if FFmpeg chooses none of them.
        """
        usable = [stream for stream in streams if stream.codec_context is not None]
        if not usable:
            self._notes.append("no pictures" if kind == "video" else "no sound")
            return None
        if len(usable) > 1:
            self._notes.append(f"several {kind} streams")
        best = self._container.streams.best(kind)
        stream = best if best in usable else usable[0]
        stream.codec_context.thread_count = self._request.threads
        return stream

    @staticmethod
    def may_seek(request: Request) -> bool:
        """Whether the part begins so late that decoding need not begin at the start of the video."""
        return request.start >= _SEEK_FROM

    def seek(self) -> bool:
        """Seeks to a time before the requested part, from which all streams can be decoded by the start of the part.

        Some containers, such as transport streams, seek to any packet. Then the pictures before the next keyframe
        cannot be decoded.

        Returns:
          False if there is no such time, or if times may begin anew in the file; then decode from the start.
        """
        if self._has_discontinuities:
            return False
        for lead in _SEEK_LEADS:
            if lead <= self._request.start and self._seek_to(lead) and self._first_time() <= self._request.start:
                return self._seek_to(lead)
        return False

    def _seek_to(self, lead: float) -> bool:
        """Seeks to `lead` seconds before the start of the requested part; False if the container cannot seek."""
        target = self._origin + self._request.start - lead
        self._blocked = {stream.index for stream in self._streams}
        self._decoding_times.clear()
        try:
            self._container.seek(int(target * 1e6), backward=True, any_frame=False)
        except self._errors:
            return False
        return True

    def _first_time(self) -> float:
        """After a seek, decodes to find the second from which on all streams have frames; infinity if it is unknown."""
        times: dict[int, float] = {}
        for packet in self._container.demux(self._streams):
            for frame in self._decode_packet(packet):
                time = np.inf if frame.pts is None else float(frame.pts * frame.time_base) - self._origin
                times.setdefault(packet.stream.index, time)
            if len(times) == len(self._streams):
                return max(times.values())
        return np.inf

    def _decode_packet(self, packet: Any) -> list[Any]:
        """Decodes a packet; returns its frames.

        After a seek, a stream has no frames up to its first keyframe that can be decoded.
        """
        if packet.stream.index not in self._blocked:
            return self._decode_tolerantly(packet)
        if packet.stream is self._video and not packet.is_keyframe:
            return []
        try:
            frames = list(packet.decode())
        except self._errors:
            return []
        self._blocked.discard(packet.stream.index)
        self._expect_frame(packet)
        return frames

    def _decode_tolerantly(self, packet: Any) -> list[Any]:
        """Decodes a packet; returns no frame if it is damaged, and fewer packets are than may be."""
        try:
            frames = list(packet.decode())
        except self._errors as error:
            self._damage.add_undecodable(packet, error)
            return []
        self._expect_frame(packet)
        return frames

    def _expect_frame(self, packet: Any) -> None:
        """Notes the decoding time of a packet of pictures, for the frame to which it belongs."""
        if self._has_decoding_times and packet.stream is self._video and packet.size and packet.dts is not None:
            self._decoding_times.append(_to_seconds(packet.dts, packet.time_base) - self._origin)
            if len(self._decoding_times) > _MOST_DELAYED:  # packets that gave no frame
                self._decoding_times.popleft()

    def messages(self) -> Iterator[Message]:
        """Decodes the requested part; yields its messages, the last of which is `end`."""
        is_at_end = True
        # All streams are read, because the length of the container is that of the longest stream.
        for packet in self._packets():
            if self._rule.checks_times:
                self._time_line.move(packet)
            for frame in self._decode_needed(packet):
                yield from self._add_picture(frame) if packet.stream is self._video else self._add_sound(frame)
            if not self._needs_pictures() and not self._needs_sound():
                is_at_end = False
                break
        if is_at_end:
            if not self._states_length:
                self._notes.append(_PERHAPS_CUT)
            containers.refuse_early_end(self._container, self._streams, self._ends, DecodeError)
        yield from self._remaining_messages()
        yield self._end_message(self._rows, is_at_end)

    def _packets(self) -> Iterator[Any]:
        packets = self._damage.watched(self._container.demux(), self._needed_indices())
        if not self._rule.closes_pauses:
            return packets
        indices = [stream.index for stream in self._streams]
        pauses = Pauses(indices, self._has_discontinuities, self._request.per_second, self._origin, self._note)
        return pauses.closed(packets)

    def _decode_needed(self, packet: Any) -> Iterator[Any]:
        """Yields the frames of a packet. If its stream is not needed, only the end of the packet is recorded."""
        is_picture, is_sound = packet.stream is self._video, packet.stream is self._audio
        if (is_picture and self._needs_pictures()) or (is_sound and self._needs_sound()):
            yield from self._decode_packet(packet)
        elif packet.pts is not None:
            end = float((packet.pts + (packet.duration or 0)) * packet.time_base) - self._origin
            self._ends[packet.stream.index] = max(self._ends.get(packet.stream.index, 0.0), end)

    def _needed_indices(self) -> set[int]:
        """The indices of the streams of which rows are made."""
        video = {self._video.index} if self._video is not None and self._takes_pictures() else set[int]()
        return video | ({self._audio.index} if self._audio is not None and self._windows else set[int]())

    def _needs_pictures(self) -> bool:
        is_done = self._sampler.is_done and all(clips.is_done for clips in self._clips)
        return self._video is not None and self._takes_pictures() and not is_done

    def _takes_pictures(self) -> bool:
        return bool(self._request.pictures or self._request.clips)

    def _needs_sound(self) -> bool:
        return self._audio is not None and not all(window.is_done for window in self._windows)

    def _presentation_time(self, frame: Any, stream: Any) -> float:
        """The time of a frame, in seconds from the start of the video; also records the end of the frame."""
        last = self._ends.get(stream.index, 0.0)
        time = last if frame.pts is None else _to_seconds(frame.pts, frame.time_base) - self._origin
        if stream is self._video and self._decoding_times:
            time = self._decoding_times.popleft()
        duration = _to_seconds(frame.duration, frame.time_base) if getattr(frame, "duration", 0) else 0.0
        if stream is self._video and self._has_decoding_times:
            duration = time - self._last_time if self._last_time is not None else 0.0  # AVI states none
        if stream is self._video and not duration and stream.average_rate:
            duration = float(1 / stream.average_rate)
        self._ends[stream.index] = max(last, time + duration)
        return time

    def _add_picture(self, frame: Any) -> Iterator[Message]:
        time = self._presentation_time(frame, self._video)
        if self._last_time is not None and time > self._last_time:
            # FFmpeg writes an empty frame after the first one of an AVI file if the sound has a lead-in, as mp3 has.
            is_lead_in = self._container.format.name == "avi" and np.isinf(self._intervals[0])
            interval = time - self._last_time
            self._intervals = [
                min(self._intervals[0], interval),
                max(self._intervals[1], 0 if is_lead_in else interval),
            ]
        self._last_time, picture = time, ScaledPicture(frame, self._pixel_width, self._reformatters)
        for row, nearest in self._sampler.add(time, picture):
            yield from self._picture_messages(row, nearest)
        for form_index, sampler in enumerate(self._clips):
            yield from self._clip_messages(form_index, sampler.add(time, picture))

    def _picture_messages(self, row: int, picture: ScaledPicture) -> Iterator[Message]:
        self._rows = row + 1
        self._note_unusual(picture.frame)
        for form_index, scaling in enumerate(self._request.pictures):
            yield Message("picture", form_index, row, picture.scaled(scaling))

    @staticmethod
    def _clip_messages(form_index: int, clips: Iterable[tuple[int, list[NDArray[np.uint8]]]]) -> Iterator[Message]:
        for number, pictures in clips:
            yield Message("clip", form_index, number, np.stack(pictures))

    def _note_unusual(self, frame: Any) -> None:
        if frame.rotation:
            self._note("rotated")
        if frame.format.name not in _USUAL_PIXELS and not any("pixel" in note for note in self._notes):
            self._notes.append(f"pixel format {frame.format.name}")

    def _add_sound(self, frame: Any) -> Iterator[Message]:
        time = self._presentation_time(frame, self._audio)
        samples = samples_of(frame)
        self._ends[self._audio.index] = max(
            self._ends[self._audio.index], time + len(samples) / max(1, frame.sample_rate)
        )
        for form_index, windows in enumerate(self._windows):
            yield from self._sound_messages(form_index, windows.add(time, samples, frame.sample_rate))

    def _sound_messages(self, form_index: int, blocks: Iterator[tuple[int, NDArray[np.float32]]]) -> Iterator[Message]:
        for first, values in blocks:
            for start in range(0, len(values), _WINDOWS_AT_ONCE):
                yield Message("sound", form_index, first + start, values[start : start + _WINDOWS_AT_ONCE])

    def _remaining_messages(self) -> Iterator[Message]:
        """Yields the messages of rows, clips and windows that are known only after the last frame."""
        for row, picture in self._finish_rows():
            yield from self._picture_messages(row, picture)
        for form_index, sampler in enumerate(self._clips):
            yield from self._clip_messages(form_index, sampler.finish(self._rows))
        for form_index, windows in enumerate(self._windows):
            yield from self._sound_messages(form_index, windows.finish())

    def _finish_rows(self) -> Iterator[tuple[int, ScaledPicture]]:
        if isinstance(self._sampler, WholeRows):
            return self._sampler.finish(self._ends.get(self._video.index, 0.0) if self._video is not None else 0.0)
        return self._sampler.finish()

    def _end_message(self, rows: int, is_at_end: bool) -> Message:
        """The last message."""
        seconds = max((self._ends.get(stream.index, 0.0) for stream in self._streams), default=0.0)
        sound = max((window.end for window in self._windows), default=0.0)
        if self._video is None or not rows:
            if self._video is not None and self._takes_pictures():
                self._note("no pictures")
            rows = self._rows_of_sound(sound)
        elif self._rule.counts_whole and (rows_of_sound := self._rows_of_sound(sound)) > rows:
            self._note("sound that goes on after the pictures")
            rows = rows_of_sound
        if not rows:
            raise DecodeError("no frame and no sound could be decoded in the requested part")
        if self._audio is not None and not sound and self._windows:
            self._notes.append("no sound")
        if self._damage.packets:
            self._note(f"damaged packets: {self._damage.packets}")
        if any(windows.has_changed_rate for windows in self._windows):
            self._note("the sample rate of the sound changes")
        low, high = self._intervals
        if self._last_time is not None and high > 1.5 * low + 0.002:
            self._notes.append("variable frame rate")
        if seconds - self._request.start < 1:
            self._notes.append("shorter than a second")
        if rows == self._request.most and self._continues_after(rows, is_at_end):
            self._notes.append(f"only the first {rows} frames")
        return Message("end", details={"rows": rows, "seconds": seconds - self._request.start, "notes": self._notes})

    def _rows_of_sound(self, seconds: float) -> int:
        """The number of rows that sound of this length covers."""
        if not seconds:
            return 0
        if self._rule.counts_whole:
            part = np.inf if self._request.end is None else self._request.end - self._request.start
            return min(self._request.most, whole_rows(min(seconds, part), self._request.per_second))
        return min(self._request.most, int(np.ceil(seconds * self._request.per_second - 1e-9)))

    def _continues_after(self, rows: int, is_at_end: bool) -> bool:
        """Whether the requested part of the video has further rows, which were left out."""
        start, per_second = self._request.start, self._request.per_second
        ends = [self._request.end] if self._request.end is not None else []
        duration = self._container.duration  # in microseconds; None if it is not known
        if is_at_end or not (duration or self._has_discontinuities):
            ends.append(max(self._ends.values(), default=0.0))
        elif not self._has_discontinuities:  # otherwise no time in the file says when it ends
            ends.append(duration / 1e6)
        if self._rule.counts_whole:
            return not ends or whole_rows(min(ends) - start, per_second) > rows
        return not ends or min(ends) > start + rows / per_second


def _to_seconds(count: int, time_base: Any) -> float:
    """Converts a time in units of `time_base`, a fraction of a second, to seconds."""
    # Two operations on floats are much faster than a product of fractions, and give the same value.
    return float(count * time_base.numerator / time_base.denominator)


def _is_cover(stream: Any) -> bool:
    """Whether a stream is a picture that belongs to a sound file, such as the cover of an album."""
    return bool(stream.disposition & type(stream.disposition).attached_pic)
