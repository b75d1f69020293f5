"""Extractors of a user, in NumPy: colours of pictures, motion in clips, loudness of sound in bands."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from yt8m.extractors import Extractor
from yt8m.extractors.base import Compute
from yt8m.options import option


@dataclass(frozen=True)
class Colours(Extractor):
    """The mean and the deviation of each colour, from 0 to 1."""

    feature: ClassVar[str] = "colours"
    scale: float = option(1.0, "factor")

    @contextlib.contextmanager
    def open(self, weights: Mapping[str, str]) -> Iterator[Compute]:
        def compute(pictures: np.ndarray) -> np.ndarray:
            values = pictures.astype(np.float32) / 255 * self.scale
            return np.concatenate([values.mean(axis=(1, 2)), values.std(axis=(1, 2))], axis=1)

        yield compute


@dataclass(frozen=True)
class Thumbnails(Extractor):
    """The mean colour of each of 6 x 8 fields, from 0 to 1."""

    feature: ClassVar[str] = "thumbnails"

    @contextlib.contextmanager
    def open(self, weights: Mapping[str, str]) -> Iterator[Compute]:
        def compute(pictures: np.ndarray) -> np.ndarray:
            rows = [part.mean(axis=1) for part in np.array_split(pictures.astype(np.float32) / 255, 6, axis=1)]
            fields = [part.mean(axis=1) for row in rows for part in np.array_split(row, 8, axis=1)]
            return np.concatenate(fields, axis=1)

        yield compute


@dataclass(frozen=True)
class Bands(Extractor):
    """The loudness of each of eight bands of frequencies in a window."""

    feature: ClassVar[str] = "bands"
    takes: ClassVar[Literal["frames", "clips", "waveform"]] = "waveform"
    rate: ClassVar[int] = 8000
    window: ClassVar[int] = 4000
    hop: ClassVar[int] = 8000

    @contextlib.contextmanager
    def open(self, weights: Mapping[str, str]) -> Iterator[Compute]:
        def compute(waveforms: np.ndarray) -> np.ndarray:
            power = np.abs(np.fft.rfft(waveforms))[:, 1:2001]
            return np.sqrt(power.reshape(len(waveforms), 8, -1).mean(axis=2)).astype(np.float32) / 10

        yield compute


@dataclass(frozen=True)
class Motion(Extractor):
    """The mean of each picture of a clip, and how much each differs from the one before."""

    feature: ClassVar[str] = "motion"
    takes: ClassVar[Literal["frames", "clips", "waveform"]] = "clips"
    frames: ClassVar[int] = 4
    rate: ClassVar[float] = 5

    @contextlib.contextmanager
    def open(self, weights: Mapping[str, str]) -> Iterator[Compute]:
        def compute(clips: np.ndarray) -> np.ndarray:
            values = clips.astype(np.float32).reshape(len(clips), self.frames, -1) / 255
            return np.concatenate([values.mean(axis=2), np.abs(np.diff(values, axis=1)).mean(axis=2)], axis=1)

        yield compute


def compute(extractor: Extractor, values: Any) -> np.ndarray:
    with extractor.open({}) as function:
        return function(np.asarray(values))
