"""Chooses frames of a video by time, and cuts its sound into windows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

F = TypeVar("F")
_GAP = 0.05  # seconds that the times of sound may differ from the number of its samples


class NearestFrames(Generic[F]):
    """Chooses, for each second `start + k / per_second`, the nearest frame; of two equally near ones the earlier.

    The last k is the one nearest to the time of the last frame. Source: MediaPipe's PacketResamplerCalculator with a
    frame rate, the base timestamp 0, and the last packet flushed.

    Args:
      per_second: frames per second.
      start, end: only k with start <= second < end count; None for the end of the video.
      most: the largest number of frames.
    """

    def __init__(self, per_second: float, start: float, end: float | None, most: int) -> None:
        self._per_second, self._start, self._end, self._most = per_second, start, end, most
        self._last: tuple[float, F] | None = None
        self._next = 0

    @property
    def is_done(self) -> bool:
        """Whether all frames have been chosen."""
        return self._next >= self._most or (self._end is not None and self._second() >= self._end - 1e-9)

    def _second(self) -> float:
        return self._start + self._next / self._per_second

    def add(self, time: float, frame: F) -> Iterator[tuple[int, F]]:
        """Takes the next frame; yields (k, frame) for each k that is now decided."""
        before = self._last
        while not self.is_done and self._second() <= time:
            is_nearer = before is None or time - self._second() < self._second() - before[0]
            yield self._next, frame if is_nearer or before is None else before[1]
            self._next += 1
        self._last = max(time, before[0]) if before else time, frame

    def finish(self) -> Iterator[tuple[int, F]]:
        """Yields (k, frame) for the remaining k, after the last frame was added."""
        if self._last is None:
            return
        time, frame = self._last
        while not self.is_done and self._second() - time <= 0.5 / self._per_second:
            yield self._next, frame
            self._next += 1


class Sound(NamedTuple):
    """A form of sound: samples per second; length of a window, and distance of the starts of windows, in samples."""

    rate: int
    window: int
    hop: int


class Windows:
    """Cuts sound into windows: window j begins `j * hop` samples after the start; the last one is filled with silence.

    Args:
      sound: the form.
      start: second of the video at which window 0 begins.
      seconds: windows that begin more than this many seconds after the start are left out.
    """

    def __init__(self, sound: Sound, start: float, seconds: float) -> None:
        self._sound, self._start = sound, start
        self._most = int(np.ceil(seconds * sound.rate / sound.hop - 1e-9))
        self._longest = seconds + sound.window / sound.rate + 1
        self._resampler: Any = None
        self._input_rate, self._taken = 0, 0  # samples a second, and samples taken, of the video's sound
        self._lead = 0  # seconds before the start that are resampled too, and left out afterwards
        self._held: NDArray[np.float32] = np.zeros(0, np.float32)  # samples from the start of window `_next` on
        self._skip = 0  # samples still to be left out between two windows
        self._next, self._made = 0, 0

    @property
    def is_done(self) -> bool:
        """Whether all windows have been made."""
        return self._next >= self._most

    @property
    def end(self) -> float:
        """The time since the start that the sound covers, in seconds."""
        return max(0.0, self._made / self._sound.rate - self._lead)

    def add(self, time: float, samples: NDArray[np.float32], rate: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Takes the next samples, one channel; yields (j, windows) that are complete.

        A gap in the times is filled with silence; samples before the start, or that overlap earlier ones, are left out.

        Raises:
          ValueError: the rate changes within the sound.
        """
        if not self._input_rate:
            self._input_rate = rate
            # A resampler that begins at the start would take the sound before it for silence.
            self._lead = 1 if self._start > 0 and rate != self._sound.rate else 0
            self._skip = self._lead * self._sound.rate
        if rate != self._input_rate or not rate:
            raise ValueError("the sample rate of its sound changes")
        place = (min(time - self._start, self._longest) + self._lead) * rate
        missing = round(place) - self._taken
        if abs(missing) > (_GAP * rate if self._taken else 0):
            samples = samples[-missing:] if missing < 0 else np.concatenate([np.zeros(missing, np.float32), samples])
        if len(samples):
            self._taken += len(samples)
            yield from self._cut(self._resampled(samples))

    def finish(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yields the windows that are left at the end of the sound."""
        if self._resampler is not None:
            yield from self._cut(self._resampler.resample_chunk(np.zeros(0, np.float32), last=True))
        if len(self._held) and not self.is_done:
            filled = np.zeros((1, self._sound.window), np.float32)
            filled[0, : len(self._held)] = self._held
            yield self._next, filled
            self._next += 1

    def _resampled(self, samples: NDArray[np.float32]) -> NDArray[np.float32]:
        if self._input_rate == self._sound.rate:
            return samples
        if self._resampler is None:
            import soxr

            self._resampler = soxr.ResampleStream(self._input_rate, self._sound.rate, 1, dtype="float32")
        return np.asarray(self._resampler.resample_chunk(samples), np.float32)

    def _cut(self, samples: NDArray[np.float32]) -> Iterator[tuple[int, NDArray[np.float32]]]:
        self._made += len(samples)
        skipped = min(self._skip, len(samples))
        self._skip -= skipped
        self._held = np.concatenate([self._held, samples[skipped:]])
        window, hop = self._sound.window, self._sound.hop
        count = min((len(self._held) - window) // hop + 1, self._most - self._next) if len(self._held) >= window else 0
        if count > 0:
            views = np.lib.stride_tricks.sliding_window_view(self._held, window)[: (count - 1) * hop + 1 : hop]
            yield self._next, np.ascontiguousarray(views)
            self._next += count
            self._skip = max(0, count * hop - len(self._held))
            self._held = self._held[count * hop :]


def samples_of(frame: Any) -> NDArray[np.float32]:
    """The mean of the channels of a frame of sound, float32 [samples] from -1 to 1.

    The channels are averaged here, because FFmpeg's conversion to one channel multiplies by the root of their number.
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
