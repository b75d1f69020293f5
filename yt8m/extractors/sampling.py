"""Chooses frames of a video by their times, and cuts the sound of a video into windows."""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from yt8m.extractors.base import Clips, Sound
from yt8m.extractors.sampling_rules import rounding, whole_rows

F = TypeVar("F")  # a frame
P = TypeVar("P")  # the picture that is made from a frame
# The time of a frame of sound may differ by this many seconds from the time that the samples before it take. If it
# differs by more, there is a gap or an overlap.
_GAP = 0.05


class NearestFrames(Generic[F]):
    """Chooses the nearest frame of a video for each of the given times; if two are equally near, the earlier one.

    Args:
      seconds: the times in seconds, ascending.
      after: a time that is more than this many seconds after the last frame gets no frame.
    """

    def __init__(self, seconds: Iterable[float], after: float = math.inf) -> None:
        self._seconds, self._after = enumerate(seconds), after
        self._next = next(self._seconds, None)
        self._last: tuple[float, F] | None = None

    @property
    def is_done(self) -> bool:
        """Whether a frame has been chosen for every time."""
        return self._next is None

    def add(self, time: float, frame: F) -> Iterator[tuple[int, F]]:
        """Takes the next frame of the video; yields the frame for each time up to that of the new frame.

        Args:
          time: the time of the frame in seconds.
        """
        last = self._last
        while self._next is not None and (second := self._next[1]) <= time:
            new_is_nearer = last is None or time - second < second - last[0]
            yield self._next[0], frame if new_is_nearer or last is None else last[1]
            self._next = next(self._seconds, None)
        self._last = max(time, last[0]) if last else time, frame

    def finish(self) -> Iterator[tuple[int, F]]:
        """Yields (k, the nearest frame) for the remaining times. Call it after the last frame was added."""
        while self._last is not None and self._next is not None and self._next[1] - self._last[0] <= self._after:
            yield self._next[0], self._last[1]
            self._next = next(self._seconds, None)


def nearest_rows(per_second: float, start: float, end: float | None, most: int) -> NearestFrames[Any]:
    """Chooses the frame for each row of a feature: row k gets the frame nearest to second `start + k / per_second`.

    If neither `end` nor `most` comes first, the last row is the one nearest to the time of the last frame. Source:
    MediaPipe's PacketResamplerCalculator with a frame rate, the base timestamp 0, and the last packet flushed.

    Args:
      per_second: rows per second.
      start: the second at which the part of the video begins from which rows are taken.
      end: the second at which this part ends; None for the end of the video.
      most: the largest number of rows.
    """
    seconds = (start + row / per_second for row in range(most))
    last = math.inf if end is None else end - 1e-9
    return NearestFrames(itertools.takewhile(lambda second: second < last, seconds), 0.5 / per_second)


class WholeRows(Generic[F]):
    """Chooses the frame for each row by the rule `whole-3`: a row counts if the video has half of it.

    Row k gets the frame nearest to second `start + k / per_second`. It is given once a frame shows that the video has
    half of the row. The first row always counts.
    """

    def __init__(self, per_second: float, start: float, end: float | None, most: int) -> None:
        rows = most if end is None else min(most, whole_rows(end - start, per_second))
        self._sampler = NearestFrames[F](start + row / per_second for row in range(rows))
        self._per_second, self._start = per_second, start
        self._waiting: deque[tuple[int, F]] = deque()

    @property
    def is_done(self) -> bool:
        """Whether all rows that may be taken were given."""
        return self._sampler.is_done and not self._waiting

    def add(self, time: float, frame: F) -> Iterator[tuple[int, F]]:
        """Takes the next frame, at a time in seconds; yields (row, its frame) for each row that certainly counts."""
        self._waiting += self._sampler.add(time, frame)
        return self._counted(time, 0)

    def finish(self, end: float) -> Iterator[tuple[int, F]]:
        """Yields the remaining rows that count, as `add` does.

        Args:
          end: the second at which the last frame ends.
        """
        if end > self._start:
            rows = whole_rows(end - self._start, self._per_second)
            remaining = itertools.takewhile(lambda pair: pair[0] < rows, self._sampler.finish())
            yield from itertools.chain(self._counted(end, 1), remaining)

    def _counted(self, time: float, least: int) -> Iterator[tuple[int, F]]:
        """Yields the waiting rows that have their middle before `time`, and at least the rows before `least`."""
        seconds = time - self._start
        rows = max(least, whole_rows(seconds, self._per_second) if seconds > 0 else 0)
        while self._waiting and self._waiting[0][0] < rows:
            yield self._waiting.popleft()


def clip_of_row(row: int, per_second: float, hop: float) -> int:
    """The number of the clip whose middle is nearest to the time of a row; if two are equally near, the earlier one.

    Args:
      per_second: rows per second.
      hop: seconds from the middle of a clip to the middle of the next one.
    """
    return max(0, math.ceil(row / per_second / hop - 0.5 - 1e-9))


class _OpenClip(Generic[F, P]):
    """A clip whose pictures are being chosen."""

    def __init__(self, row: int, number: int, seconds: Sequence[float]) -> None:
        self.row, self.number, self.first = row, number, seconds[0]
        self._sampler, self._size = NearestFrames[F](seconds), len(seconds)
        self.pictures: list[P] = []

    def add(self, time: float, frame: F, picture_of: Callable[[F], P]) -> bool:
        """Takes the next frame of the video; returns whether the clip is complete now."""
        self.pictures += [picture_of(nearest) for _, nearest in self._sampler.add(time, frame)]
        return len(self.pictures) == self._size

    def finish(self, picture_of: Callable[[F], P]) -> None:
        """Completes the clip with copies of the last frame, because the video has ended."""
        self.pictures += [picture_of(nearest) for _, nearest in self._sampler.finish()]


class NearestClips(Generic[F, P]):
    """Makes clips: each picture is the frame nearest to the picture's time; if two are equally near, the earlier one.

    The time of picture i of clip j is `start + j * hop + (i - (frames - 1) / 2) / rate`, so the middle of clip j is at
    `start + j * hop`. A time before the start of the part counts as its start, and a time after its end as its end. So
    the first and the last picture of the part are repeated there. A clip is made only if
    some row of the feature is nearest to it.

    Args:
      per_second: rows of the feature per second.
      start: the second at which the part of the video begins.
      end: the second at which the part ends; None for the end of the video.
      most: the largest number of rows.
    """

    def __init__(
        self, clips: Clips, per_second: float, start: float, end: float | None, most: int, picture_of: Callable[[F], P]
    ) -> None:
        self._clips, self._start, self._end, self._picture_of = clips, start, end, picture_of
        numbers = ((row, clip_of_row(row, per_second, clips.hop)) for row in range(most))
        first_rows = (next(group) for _, group in itertools.groupby(numbers, key=lambda pair: pair[1]))
        in_part = itertools.takewhile(lambda pair: end is None or start + pair[0] / per_second < end - 1e-9, first_rows)
        self._upcoming = (_OpenClip[F, P](row, number, self._seconds(number)) for row, number in in_part)
        self._next = next(self._upcoming, None)
        self._open: list[_OpenClip[F, P]] = []
        self._last: tuple[float, F] | None = None

    def _seconds(self, number: int) -> list[float]:
        """The times of the pictures of the clip with this number, in seconds of the video."""
        frames, rate, hop, _ = self._clips
        seconds = [number * hop + (index - (frames - 1) / 2) / rate for index in range(frames)]
        last = math.inf if self._end is None else self._end
        return [min(max(self._start, self._start + second), last) for second in seconds]

    @property
    def is_done(self) -> bool:
        """Whether all clips are complete."""
        return self._next is None and not self._open

    def add(self, time: float, frame: F) -> Iterator[tuple[int, list[P]]]:
        """Takes the next frame of the video; yields (j, pictures) for each clip j that is complete now."""
        while self._next is not None and self._next.first <= time:
            if self._last is not None:
                self._next.add(*self._last, self._picture_of)
            self._open.append(self._next)
            self._next = next(self._upcoming, None)
        self._last = max(time, self._last[0]) if self._last else time, frame
        complete = [clip for clip in self._open if clip.add(time, frame, self._picture_of)]
        self._open = [clip for clip in self._open if clip not in complete]
        yield from ((clip.number, clip.pictures) for clip in complete)

    def finish(self, rows: int) -> Iterator[tuple[int, list[P]]]:
        """Yields (j, pictures) for each remaining clip j. Call it after the last frame was added."""
        while self._last is not None and self._next is not None and self._next.row < rows:
            self._next.add(*self._last, self._picture_of)
            self._open.append(self._next)
            self._next = next(self._upcoming, None)
        for clip in self._open:
            if clip.row < rows:
                clip.finish(self._picture_of)
                yield clip.number, clip.pictures
        self._open = []


class Windows:
    """Cuts sound into windows. Window j begins `j * hop` samples after the start of window 0.

    Windows that go beyond the end of the sound are filled up with silence. If the sample rate changes, the sound after
    the change gets a new resampler.

    Args:
      start: the second of the video at which window 0 begins.
      seconds: windows that begin this many seconds after the start, or later, are left out.
      least_share: the share of a hop that the sound must still have at the start of a window, else the window is left
        out; window 0 is always made.
    """

    def __init__(self, sound: Sound, start: float, seconds: float, least_share: float = 0.0) -> None:
        self._sound, self._start = sound, start
        least = least_share * sound.hop - rounding(sound.rate / sound.hop) * sound.rate
        self._least_samples, self.has_changed_rate = max(1, math.ceil(least)), False
        self._measures, self._seconds = least_share > 0, seconds
        self._most = int(np.ceil(seconds * sound.rate / sound.hop - 1e-9))
        self._longest = seconds + sound.window / sound.rate + 1
        self._resampler: Any = None
        self._input_rate = 0  # samples per second of the video's sound; 0 until the first samples come
        self._received = 0  # number of samples of the video's sound so far, since its sample rate last changed
        self._seconds_before = 0.0  # length of the sound before that change
        self._lead_seconds = 0  # seconds before the start that are resampled too; the result for them is left out
        self._pending: NDArray[np.float32] = np.zeros(0, np.float32)  # samples from the start of window `_next` on
        self._skip = 0  # number of resampled samples to leave out before the next window begins
        self._next, self._resampled_count = 0, 0

    @property
    def is_done(self) -> bool:
        """Whether the last window that may be made has been made, and `end` is known up to `seconds`."""
        return self._next >= self._most and (not self._measures or self.end >= self._seconds)

    @property
    def end(self) -> float:
        """The time since the start that the sound covers, in seconds."""
        return max(0.0, self._resampled_count / self._sound.rate - self._lead_seconds)

    def add(self, time: float, samples: NDArray[np.float32], rate: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Takes the next samples of the video's sound; yields the windows that are complete now.

        A gap in the times is filled with silence. Samples before the start, or that overlap earlier samples, are left
        out.

        Args:
          time: the second of the video at which the samples begin.
          samples: float32 [samples], one channel from -1 to 1.
          rate: samples per second.

        Yields:
          (number of the first window, windows float32 [n, window]).
        """
        if not self._input_rate:
            self._input_rate = rate
            # The resampler takes the sound before its first sample for silence. So it begins a second before the start.
            self._lead_seconds = 1 if self._start > 0 and rate != self._sound.rate else 0
            self._skip = self._lead_seconds * self._sound.rate
        if not rate:
            raise ValueError("its sound has the sample rate 0")
        if rate != self._input_rate:
            yield from self._change_rate(rate)
        expected = min(time - self._start, self._longest) + self._lead_seconds - self._seconds_before
        missing = round(expected * rate) - self._received
        if abs(missing) > (_GAP * rate if self._received or self._seconds_before else 0):
            samples = samples[-missing:] if missing < 0 else np.concatenate([np.zeros(missing, np.float32), samples])
        if len(samples):
            self._received += len(samples)
            yield from self._cut_windows(self._resample(samples))

    def finish(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yields the remaining windows that begin before the end of the sound, each filled up with silence.

        Call it after the last samples were added.
        """
        yield from self._end_resampler()
        while len(self._pending) >= (self._least_samples if self._next else 1) and self._next < self._most:
            filled = np.zeros((1, self._sound.window), np.float32)
            filled[0, : len(self._pending)] = self._pending
            yield self._next, filled
            self._pending = self._pending[self._sound.hop :]
            self._next += 1

    def _change_rate(self, rate: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Ends the sound with the present sample rate, and yields the windows that are complete by that."""
        yield from self._end_resampler()
        self._seconds_before += self._received / self._input_rate
        self._input_rate, self._received, self.has_changed_rate = rate, 0, True

    def _end_resampler(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Takes the last samples out of the resampler; yields the windows that are complete by that."""
        if self._resampler is not None:
            yield from self._cut_windows(self._resampler.resample_chunk(np.zeros(0, np.float32), last=True))
            self._resampler = None

    def _resample(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        if self._input_rate == self._sound.rate:
            return samples
        if self._resampler is None:
            import soxr

            self._resampler = soxr.ResampleStream(self._input_rate, self._sound.rate, 1, dtype="float32")
        return np.asarray(self._resampler.resample_chunk(samples), np.float32)

    def _cut_windows(self, samples: NDArray[np.float32]) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Takes resampled samples; yields (number of the first window, windows) if windows are complete now."""
        self._resampled_count += len(samples)
        skipped = min(self._skip, len(samples))
        self._skip -= skipped
        self._pending = np.concatenate([self._pending, samples[skipped:]])
        window, hop = self._sound.window, self._sound.hop
        count = (
            min((len(self._pending) - window) // hop + 1, self._most - self._next)
            if len(self._pending) >= window
            else 0
        )
        if count > 0:
            views = np.lib.stride_tricks.sliding_window_view(self._pending, window)[: (count - 1) * hop + 1 : hop]
            yield self._next, np.ascontiguousarray(views)
            self._next += count
            self._skip = max(0, count * hop - len(self._pending))
            self._pending = self._pending[count * hop :]


def samples_of(frame: Any) -> NDArray[np.float32]:
    """The mean of the channels of a frame of sound (PyAV's), float32 [samples] from -1 to 1.

    FFmpeg could convert to one channel, but it would multiply the mean by the square root of the number of channels.
    """
    values = frame.to_ndarray()
    channels = len(frame.layout.channels)
    by_channel = values if frame.format.is_planar else values.reshape(-1, channels).T
    if values.dtype.kind == "u":
        scaled = (by_channel.astype(np.float32) - 128) / 128
    elif values.dtype.kind == "i":
        scaled = by_channel.astype(np.float32) / -float(np.iinfo(values.dtype).min)
    else:
        scaled = by_channel.astype(np.float32)
    return np.asarray(np.nan_to_num(scaled.mean(axis=0), posinf=0.0, neginf=0.0), np.float32)
