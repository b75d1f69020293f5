"""Decodes a video with PyAV: pictures and clips by the nearest-frame rule, and sound as windows.

Only the child processes of `decoder_pool` call `decode`, because a malicious file can end the process that decodes it.
"""

from __future__ import annotations

import contextlib
import importlib.util
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from operator import methodcaller
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import RunError, missing_extra
from yt8m.extractors import containers
from yt8m.extractors.base import Clips, Scaling, Sound
from yt8m.extractors.sampling import NearestClips, NearestFrames, Windows, nearest_rows, samples_of

_TOLERANCE = 0.5  # so many seconds may be missing at the end of a stream, because containers round their durations
# To decode a part of a video, the decoder first seeks to this many seconds before the start of the part, because
# decoding can begin only at a keyframe. The second value is tried if the first fails.
_SEEK_LEADS = (2.0, 15.0)
_SEEK_FROM = 5.0  # seconds; if the part starts earlier, decoding begins at the start of the video
_PERHAPS_CUT = "perhaps cut: its container does not say how long it is"
_USUAL_PIXELS = ("yuv420p", "yuvj420p", "nv12")  # FFmpeg's pixel formats that are not noted as unusual
_WINDOWS_AT_ONCE = 16  # largest number of windows of sound in a message
# FFmpeg's names of the formats that may be opened: containers of videos and sound. Playlists, for example, may not be
# opened, because they can name other files.
_FORMATS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,asf,flv,live_flv,mpeg,mpegts,mpegvideo,m4v,h264,hevc,ogg,rm,mxf,dv,nut,"
    "gif,apng,wav,mp3,aac,flac,ac3,aiff,au,amr,caf,w64,ape,wv,ivf,obu,swf,wtv,vob,y4m,yuv4mpegpipe,gxf,nsv,roq,smk,bink"
)


class DecodeError(Exception):
    """A video cannot be decoded. The text says why, as in "it is cut"; messages put it after the path of the video."""


class Request(NamedTuple):
    """The video to decode, and the forms of the pictures, clips and windows of sound to make from it (see `base.Form`).

    Attributes:
      path: local path of the video.
      per_second: frames to take per second; frame k is the frame of the video nearest to second
        `start + k / per_second`.
      most: the largest number of frames, which are the rows of the features.
      start, end: the part of the video in seconds; `end` is None for the end of the video.
      pictures: for each form of pictures, how to scale them; None for the video's own size.
      sounds: the forms of sound.
      threads: number of threads of the decoder.
      clips: the forms of clips.
    """

    path: str
    per_second: float = 1.0
    most: int = 300
    start: float = 0.0
    end: float | None = None
    pictures: tuple[Scaling | None, ...] = ()
    sounds: tuple[Sound, ...] = ()
    threads: int = 1
    clips: tuple[Clips, ...] = ()

    @classmethod
    def from_json(cls, fields: list[Any]) -> Request:
        """Restores a request from JSON, in which each NamedTuple is the list of its fields."""
        request = cls(*fields)
        clips = [Clips(*fields) for fields in request.clips]
        return request._replace(
            pictures=tuple(map(_scaling_from_json, request.pictures)),
            sounds=tuple(Sound(*fields) for fields in request.sounds),
            clips=tuple(form._replace(scaling=_scaling_from_json(form.scaling)) for form in clips),
        )

    @property
    def seconds(self) -> float:
        """The length in seconds of the part to decode, unless the video ends earlier."""
        longest = self.most / self.per_second
        return longest if self.end is None else min(longest, self.end - self.start)


def _scaling_from_json(fields: Any) -> Scaling | None:
    return None if fields is None else Scaling(*fields)


class Message(NamedTuple):
    """A part of a decoded video.

    Attributes:
      kind: `picture`, `clip`, `sound`, `end`, or `error`.
      form_index: for a picture, clip or sound, the index of its form in `Request.pictures`, `clips` or `sounds`.
      row: for a picture, the number of its frame; for a clip, its number; for sound, the number of the first window.
      values: picture uint8 [H, W, 3] (RGB), clip uint8 [frames, H, W, 3], or sound float32 [n, window]; else None.
      details: for `end`, {"rows": number of frames, "seconds": decoded seconds, "notes": texts that say what was
        unusual}; for `error`, {"reason": text}; else None.
    """

    kind: str
    form_index: int = 0
    row: int = 0
    values: NDArray[Any] | None = None
    details: dict[str, Any] | None = None


def require_av() -> None:
    """Checks that the libraries for decoding are installed, without importing them: only the decoders need them.

    Raises:
      UsageError: PyAV is not installed, or soxr, which resamples sound, is not.
    """
    if any(importlib.util.find_spec(name) is None for name in ("av", "soxr")):
        raise missing_extra("reading video files", "PyAV (av) and soxr", "video")


def import_av() -> Any:
    """Imports PyAV; raises like `require_av`."""
    require_av()
    import av

    return av


def decode(request: Request) -> Iterator[Message]:
    """Yields the pictures, clips and windows of a video as messages, each once it is complete, then one message `end`.

    Raises:
      UsageError: the libraries for decoding are not installed.
      DecodeError: the file cannot be read, is empty, damaged, cut, or not a video; or it needs too much memory.
    """
    av = import_av()
    try:
        if storage.is_special(request.path):
            raise DecodeError("it is a pipe or a device, not a file")
        with storage.open_read(request.path) as file:
            states_length = containers.states_length(file, DecodeError)
        if request.start >= _SEEK_FROM:
            with _open_container(av, request.path) as container:
                decoder = _Decoder(container, request, states_length)
                if decoder.seek():
                    yield from decoder.messages()
                    return
        with _open_container(av, request.path) as container:
            yield from _Decoder(container, request, states_length).messages()
    except (av.error.FFmpegError, ValueError, UnicodeError) as error:
        raise DecodeError(f"it is damaged, or not a video ({_reason_of(error)})") from error
    except RunError as error:
        raise DecodeError(str(error)) from error
    except MemoryError as error:
        raise DecodeError("it needs more memory than a decoder may have") from error


def _reason_of(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error).split("\n")[0][:200]


@contextlib.contextmanager
def _open_container(av: Any, path: str) -> Iterator[Any]:
    """Opens a container with PyAV.

    FFmpeg gets an open Python file, and may use no protocols. So a malicious file cannot make FFmpeg open other files.
    """
    options = {"protocol_whitelist": "none", "format_whitelist": _FORMATS}
    with (
        storage.open_read(path) as file,
        av.open(
            file, options=options, container_options=options, buffer_size=1 << 18, metadata_errors="ignore"
        ) as container,
    ):
        yield container


class _Decoder:
    """Decodes a part of a video, in one pass over an open container.

    Args:
      container: the open container.
      request: what to decode.
      states_length: see `containers.states_length`; if False, the message `end` notes that the file is perhaps cut.

    Raises:
      DecodeError: the container has neither pictures nor sound.
    """

    def __init__(self, container: Any, request: Request, states_length: bool) -> None:
        self._container, self._request, self._states_length = container, request, states_length
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
        self._origin = max(0.0, min(starts, default=0.0))  # the container's time, in seconds, of the start of the video
        self._ends: dict[int, float] = {}  # {index of a stream: second of the video at which its last packet ends}
        row_limits = request.per_second, request.start, request.end, request.most
        self._sampler: NearestFrames[_Picture] = nearest_rows(*row_limits)
        self._rows = 0  # number of rows of the feature that have a picture so far
        self._reformatters = _reformatters()
        self._clips = [
            NearestClips[_Picture, NDArray[np.uint8]](form, *row_limits, methodcaller("scaled", form.scaling))
            for form in request.clips
        ]
        self._windows = [Windows(sound, request.start, request.seconds) for sound in request.sounds]
        self._intervals = [float("inf"), 0.0]  # the shortest and the longest time between two successive pictures
        self._last_time: float | None = None  # of the last picture
        self._blocked: set[int] = set()  # after a seek, the indices of the streams of which no packet was decoded yet

    def _choose_stream(self, kind: str, streams: list[Any]) -> Any:
        """The stream to decode; None, with a note, if no stream has a known codec.

        Of several such streams, this is FFmpeg's choice, or the first one if FFmpeg chooses none of them.

        Args:
          kind: `video` or `audio`.
          streams: the streams of this kind.
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

    def seek(self) -> bool:
        """Seeks to a time before the requested part, from which all streams can be decoded by the start of the part.

        Some containers, such as transport streams, seek to any packet. Then the pictures before the next keyframe
        cannot be decoded.

        Returns:
          False if there is no such time; then decode from the start of the video.
        """
        for lead in _SEEK_LEADS:
            if lead <= self._request.start and self._seek_to(lead) and self._first_time() <= self._request.start:
                return self._seek_to(lead)
        return False

    def _seek_to(self, lead: float) -> bool:
        """Seeks to `lead` seconds before the start of the requested part; False if the container cannot seek."""
        target = self._origin + self._request.start - lead
        self._blocked = {stream.index for stream in self._streams}
        try:
            self._container.seek(int(target * 1e6), backward=True, any_frame=False)
        except OSError:  # the base class of FFmpeg's errors about files
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
            return list(packet.decode())
        if packet.stream is self._video and not packet.is_keyframe:
            return []
        try:
            frames = list(packet.decode())
        except (OSError, ValueError):  # the base classes of FFmpeg's errors
            return []
        self._blocked.discard(packet.stream.index)
        return frames

    def messages(self) -> Iterator[Message]:
        """Decodes the requested part; yields its messages, the last of which is `end`.

        Raises:
          DecodeError: the file is cut, or nothing could be decoded in the part.
        """
        is_at_end = True
        # All streams are read, because the length of the container is that of the longest stream.
        for packet in self._container.demux():
            for frame in self._decode_needed(packet):
                yield from self._add_picture(frame) if packet.stream is self._video else self._add_sound(frame)
            if not self._needs_pictures() and not self._needs_sound():
                is_at_end = False
                break
        if is_at_end:
            self._refuse_cut()
        yield from self._remaining_messages()
        yield self._end_message(self._rows)

    def _decode_needed(self, packet: Any) -> Iterator[Any]:
        """Yields the frames of a packet. If its stream is not needed, only the end of the packet is recorded."""
        is_picture, is_sound = packet.stream is self._video, packet.stream is self._audio
        if (is_picture and self._needs_pictures()) or (is_sound and self._needs_sound()):
            yield from self._decode_packet(packet)
        elif packet.pts is not None:
            end = float((packet.pts + (packet.duration or 0)) * packet.time_base) - self._origin
            self._ends[packet.stream.index] = max(self._ends.get(packet.stream.index, 0.0), end)

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
        duration = _to_seconds(frame.duration, frame.time_base) if getattr(frame, "duration", 0) else 0.0
        if stream is self._video and not duration and stream.average_rate:
            duration = float(1 / stream.average_rate)
        self._ends[stream.index] = max(last, time + duration)
        return time

    def _add_picture(self, frame: Any) -> Iterator[Message]:
        time = self._presentation_time(frame, self._video)
        if self._last_time is not None and time > self._last_time:
            interval = time - self._last_time
            self._intervals = [min(self._intervals[0], interval), max(self._intervals[1], interval)]
        self._last_time, picture = time, _Picture(frame, self._reformatters)
        for row, nearest in self._sampler.add(time, picture):
            yield from self._picture_messages(row, nearest)
        for form_index, sampler in enumerate(self._clips):
            yield from self._clip_messages(form_index, sampler.add(time, picture))

    def _picture_messages(self, row: int, picture: _Picture) -> Iterator[Message]:
        self._rows = row + 1
        self._note_unusual(picture.frame)
        for form_index, scaling in enumerate(self._request.pictures):
            yield Message("picture", form_index, row, picture.scaled(scaling))

    @staticmethod
    def _clip_messages(form_index: int, clips: Iterable[tuple[int, list[NDArray[np.uint8]]]]) -> Iterator[Message]:
        for number, pictures in clips:
            yield Message("clip", form_index, number, np.stack(pictures))

    def _note_unusual(self, frame: Any) -> None:
        if frame.rotation and "rotated" not in self._notes:
            self._notes.append("rotated")
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
        for row, picture in self._sampler.finish():
            yield from self._picture_messages(row, picture)
        for form_index, sampler in enumerate(self._clips):
            yield from self._clip_messages(form_index, sampler.finish(self._rows))
        for form_index, windows in enumerate(self._windows):
            yield from self._sound_messages(form_index, windows.finish())

    def _refuse_cut(self) -> None:
        """Refuses a file whose streams end more than `_TOLERANCE` before the time that the container states.

        If the container states no length, a note says that the file is perhaps cut.
        """
        if not self._states_length:
            self._notes.append(_PERHAPS_CUT)
        if self._container.format.name not in containers.FORMATS_WITH_DURATION:
            return
        for stream in self._streams:
            if stream.duration:
                self._refuse_early_end(self._ends.get(stream.index, 0.0), float(stream.duration * stream.time_base))
        if self._container.duration and not any(stream.duration for stream in self._streams):
            start = max(0.0, (self._container.start_time or 0) / 1e6)
            self._refuse_early_end(max(self._ends.values(), default=0.0), self._container.duration / 1e6 - start)

    @staticmethod
    def _refuse_early_end(end: float, stated_end: float) -> None:
        if stated_end - end > _TOLERANCE:
            raise DecodeError(f"it is cut: it has {end:.1f} of {stated_end:.1f} seconds")

    def _end_message(self, rows: int) -> Message:
        seconds = max((self._ends.get(stream.index, 0.0) for stream in self._streams), default=0.0)
        sound = max((window.end for window in self._windows), default=0.0)
        if self._video is None or not rows:
            if self._video is not None and "no pictures" not in self._notes and self._takes_pictures():
                self._notes.append("no pictures")
            rows = min(self._request.most, int(np.ceil(sound * self._request.per_second - 1e-9)))
        if not rows:
            raise DecodeError("no frame and no sound could be decoded in the requested part")
        if self._audio is not None and not sound and self._windows:
            self._notes.append("no sound")
        low, high = self._intervals
        if self._last_time is not None and high > 1.5 * low + 0.002:
            self._notes.append("variable frame rate")
        if seconds - self._request.start < 1:
            self._notes.append("shorter than a second")
        if rows == self._request.most and self._continues_after(self._request.start + rows / self._request.per_second):
            self._notes.append(f"only the first {rows} frames")
        return Message("end", details={"rows": rows, "seconds": seconds - self._request.start, "notes": self._notes})

    def _continues_after(self, second: float) -> bool:
        """Whether the requested part of the video goes on after this second, so that frames were left out."""
        ends = [self._request.end] if self._request.end is not None else []
        duration = self._container.duration  # in microseconds; None if it is not known
        ends += [duration / 1e6] if duration else [max(self._ends.values(), default=0.0)]
        return min(ends) > second


def _to_seconds(count: int, time_base: Any) -> float:
    """Converts a time in units of `time_base`, a fraction of a second, to seconds."""
    # Two operations on floats are much faster than a product of fractions, and give the same value.
    return float(count * time_base.numerator / time_base.denominator)


def _is_cover(stream: Any) -> bool:
    """Whether a stream is a picture that belongs to a sound file, such as the cover of an album."""
    return bool(stream.disposition & type(stream.disposition).attached_pic)


# PyAV's object that converts and scales pictures with FFmpeg's swscale, for each scaling.
Reformatters = Mapping[Scaling | None, Any]


def _reformatters() -> Reformatters:
    """A dictionary that makes the object for a scaling at its first use: making it takes longer than scaling."""
    from av.video.reformatter import VideoReformatter

    return defaultdict(VideoReformatter)


class _Picture:
    """A decoded frame as a picture, which is computed once for each scaling that is requested.

    Args:
      frame: PyAV's frame.
      reformatters: see `_reformatters`.
    """

    def __init__(self, frame: Any, reformatters: Reformatters) -> None:
        self.frame, self._reformatters = frame, reformatters
        self._converted: dict[Scaling | None, NDArray[np.uint8]] = {}

    def scaled(self, scaling: Scaling | None) -> NDArray[np.uint8]:
        """The picture, uint8 [height, width, 3] in RGB: turned upright, then scaled and cropped."""
        if scaling not in self._converted:
            self._converted[scaling] = self._convert(scaling)
        return self._converted[scaling]

    def _convert(self, scaling: Scaling | None) -> NDArray[np.uint8]:
        width, height, interpolation = self.frame.width, self.frame.height, "bicubic"
        if scaling is not None:
            width, height = _scaled_size(width, height, scaling)
            interpolation = scaling.interpolation
        reformat = self._reformatters[scaling].reformat
        converted = reformat(self.frame, width, height, "rgb24", interpolation=interpolation.upper())
        picture = np.rot90(converted.to_ndarray(), round(self.frame.rotation / 90))
        if scaling is not None and scaling.size:
            top, left_edge = ((side - scaling.size) // 2 for side in picture.shape[:2])
            picture = picture[top : top + scaling.size, left_edge : left_edge + scaling.size]
        return np.ascontiguousarray(picture)


def _scaled_size(width: int, height: int, scaling: Scaling) -> tuple[int, int]:
    """The width and the height, in pixels, to which a picture is scaled before the square is cut out of it."""
    if not scaling.shorter_side:
        return scaling.size, scaling.size
    factor = scaling.shorter_side / min(width, height)
    return max(scaling.size, round(width * factor)), max(scaling.size, round(height * factor))
