"""Generated videos: which classes they have, when these show, and what the features look like.

A frame is common + offset of its video + sum over its classes of amplitude x activity x prototype + noise,
all of them normal, in the range that the real features are quantised from. Everything is drawn from streams
keyed by what it belongs to, so a video does not depend on how many others are made, or in which shards.

What goes along with a class through a whole video, whether the class shows or not.

A guitar's stage is there in every shot, the guitar in some. A model of whole videos learns the stage as well
and cannot tell when the guitar shows; rated segments of the same videos teach it. The strength varies by
video, so that segments of different videos cannot be ranked by the surroundings either.

And what only looks like a class: a poster of a guitar, for five seconds, in a video that has none. Whoever
has seen the whole video is not taken in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import cast

import numpy as np
from numpy.typing import NDArray

from yt8m.records import vocabulary

Floats = NDArray[np.float32]

RGB, AUDIO = 1024, 128
SIZE = RGB + AUDIO
SEGMENT = 5  # frames
FRAMES = (120, 300)  # of the shortest and the longest published video

# Standard deviations of a feature's parts: together 0.8, so that few values fall outside of -2..2, and with
# enough signal that LogisticModel gets well above a GAP of 0.5 in some hundred steps.
_COMMON, _OFFSET, _PROTOTYPE, _NOISE = 0.25, 0.25, 0.35, 0.4
_MORE_LABELS = 2.05  # 1 + Poisson of it, less those drawn twice: 3.0 labels a video
_BLOCK = 256  # videos that share a stream for their labels
_IDS = 62**4
_WORLD = 8_000_000  # the classes look the same whatever the seed
# Purposes of streams. None is 0: keys that differ in zeros at the end alone give the same stream.
_LABELS, _OFFSETS, _MEANS, _FRAMES, _WINDOWS, _RATINGS = range(1, 7)


@dataclass(frozen=True)
class Video:
    """One video without its frames.

    Attributes:
      key: seed, split and number: of its streams.
      labels: int64 [L], ascending.
      amplitudes: float32 [L], how strongly each label shows.
      num_frames: 120 to 300, where nothing else is asked for.
      offset: float32 [SIZE], what sets this video apart from others with its labels.
    """

    key: tuple[int, int, int]
    labels: NDArray[np.int64]
    amplitudes: Floats
    num_frames: int
    offset: Floats

    @property
    def id(self) -> bytes:
        """Four characters, as the real ones; no two videos of a data set share one."""
        _, split, number = self.key
        scattered = (split * (_IDS // 3) + number) * 10_007_653 % _IDS  # coprime: one to one
        return bytes(_ALPHABET[scattered // 62**place % 62] for place in range(4))

    def stream(self, purpose: int) -> np.random.Generator:
        """Random numbers of this video alone."""
        return np.random.default_rng((*self.key, purpose))


_ALPHABET = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@cache
def prototypes() -> tuple[Floats, Floats]:
    """float32 [3862, SIZE], one look a class, and [SIZE], what all videos share."""
    stream = np.random.default_rng(_WORLD)
    looks = stream.standard_normal((len(vocabulary.load()), SIZE), dtype=np.float32)
    return looks * np.float32(_PROTOTYPE), stream.standard_normal(SIZE, dtype=np.float32) * np.float32(_COMMON)


def rateable(num_classes: int) -> NDArray[np.int64]:
    """The classes that segments are rated for; all where none of the published ones is left."""
    classes = vocabulary.segment_classes()
    return classes[classes < num_classes] if classes[0] < num_classes else np.arange(num_classes)


def videos(
    seed: int, split: int, count: int, num_classes: int, segments: bool = False, lengths: tuple[int, int] = FRAMES
) -> Iterator[Video]:
    """The first `count` videos of a split.

    Args:
      segments: each has a class that segments are rated for.
      lengths: frames of the shortest and of the longest.
    """
    for start in range(0, count, _BLOCK):
        drawn = _block((seed, split, start), num_classes, segments, lengths)
        for place, (labels, amplitudes, num_frames, offset) in enumerate(drawn):
            if start + place == count:
                return
            yield Video((seed, split, start + place), labels, amplitudes, num_frames, offset)


_Drawn = tuple[NDArray[np.int64], Floats, int, Floats]


def _block(key: tuple[int, int, int], num_classes: int, segments: bool, between: tuple[int, int]) -> Iterator[_Drawn]:
    """Labels, amplitudes, length and offset of a block's videos."""
    stream = np.random.default_rng((*key, _LABELS, 1 + segments))
    counts = 1 + stream.poisson(_MORE_LABELS, _BLOCK)
    drawn = _draw(stream, np.arange(num_classes), int(counts.sum()))
    lengths = stream.integers(between[0], between[1] + 1, _BLOCK)
    rated = _draw(stream, rateable(num_classes), _BLOCK)
    amplitudes = stream.uniform(0.7, 1.3, int(counts.sum()) + _BLOCK).astype(np.float32)
    offsets = np.random.default_rng((*key, _OFFSETS))
    end = 0
    for place in range(_BLOCK):
        begin, end = end, end + int(counts[place])
        labels = drawn[begin:end]
        if segments:
            labels = np.append(rated[place], labels[: len(labels) - 1])
        labels = np.unique(labels)
        offset = offsets.standard_normal(SIZE, dtype=np.float32) * np.float32(_OFFSET)
        yield labels, amplitudes[begin : begin + len(labels)], int(lengths[place]), offset


def _draw(stream: np.random.Generator, classes: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """`count` of `classes`, as often as training videos have them."""
    cumulated = np.cumsum(vocabulary.load().counts[classes])
    found = np.searchsorted(cumulated, stream.integers(0, cumulated[-1], count), side="right")
    chosen: NDArray[np.int64] = classes[found]
    return chosen


def mean_features(video: Video, temporal: bool = False) -> Floats:
    """float32 [SIZE]: what the mean over the video's frames comes to; they are made only if `temporal`."""
    if temporal:
        mean_of_made: Floats = _made(video, None, temporal=True).mean(axis=0)
        return mean_of_made
    mean = _ground(video)
    looks, _ = prototypes()
    for label, amplitude in zip(video.labels, video.amplitudes, strict=True):
        mean += amplitude * looks[label]
    noise = video.stream(_MEANS).standard_normal(SIZE, dtype=np.float32)
    return mean + noise * np.float32(_NOISE / np.sqrt(video.num_frames))


def _ground(video: Video) -> Floats:
    """float32 [SIZE]: what all frames share, apart from the classes."""
    _, common = prototypes()
    return video.offset + common


def frames(
    video: Video, shows: Floats | None = None, temporal: bool = False, around: Floats | float = 0.0
) -> NDArray[np.uint8]:
    """uint8 [num_frames, SIZE], quantised.

    Args:
      video: whose.
      shows: float32 [num_frames, L], how much of each label is in each frame; None for all of it.
      temporal: see `_in_time`.
      around: float32 [SIZE] or [num_frames, SIZE], added to the frames.
    """
    return quantized(_made(video, shows, temporal) + np.float32(around))


def _made(video: Video, shows: Floats | None, temporal: bool) -> Floats:
    """float32 [num_frames, SIZE]; see `frames`."""
    stream = video.stream(_FRAMES)
    made = stream.standard_normal((video.num_frames, SIZE), dtype=np.float32)
    made *= np.float32(_NOISE)
    made += _ground(video)
    looks, _ = prototypes()
    for place, (label, amplitude) in enumerate(zip(video.labels, video.amplitudes, strict=True)):
        if temporal:
            _in_time(made, int(label), amplitude, stream)
        elif shows is None:
            made += amplitude * looks[label]
        else:
            made += np.outer(shows[:, place], amplitude * looks[label])
    return made


def _in_time(made: Floats, label: int, amplitude: np.float32, stream: np.random.Generator) -> None:
    """Adds a class that only time tells.

    Of four classes in a row two share their looks and have them in opposite order, which no mean over
    frames can tell; the other two flash up, with twice the strength, in one frame of fifty.
    """
    looks, _ = prototypes()
    half = len(made) // 2
    if label % 4 < 2:
        first, second = looks[label], looks[label ^ 1]
        made[:half] += amplitude * first
        made[half:] += amplitude * second
    else:
        flashes = max(len(made) // 50, 1)
        made[stream.choice(len(made), flashes, replace=False)] += 2 * amplitude * looks[label]


def quantized(features: Floats) -> NDArray[np.uint8]:
    """The bytes of features in -2..2: those that q * 4/255 + 4/512 - 2 brings back best."""
    scaled = (features + 2) * np.float32(255 / 4)
    return cast(NDArray[np.uint8], np.clip(scaled, 0, 255).astype(np.uint8))


def windows(video: Video) -> NDArray[np.bool_]:
    """bool [num_frames // 5, L]: in which segments each label shows, about two of five."""
    stream = video.stream(_WINDOWS)
    shown = stream.random((video.num_frames // SEGMENT, len(video.labels))) < 0.4
    # Every label shows somewhere and is away somewhere.
    first = stream.integers(0, len(shown), len(video.labels))
    labels = np.arange(len(video.labels))
    shown[first, labels], shown[(first + 1) % len(shown), labels] = True, False
    return shown


def ratings(video: Video, shown: NDArray[np.bool_], num_classes: int) -> NDArray[np.int64]:
    """int64 [R, 3]: start second, class and score (0 or 1) of each rating, by start.

    Five segments are rated for one class, three of them (where there are) with it; a second class of the
    video, if it has one that segments are rated for, is rated in the first two.
    """
    stream = video.stream(_RATINGS)
    places = np.flatnonzero(np.isin(video.labels, rateable(num_classes)))
    places = stream.permutation(places)[:2]
    column = shown[:, places[0]]
    with_it, without = (stream.permutation(np.flatnonzero(column == there)) for there in (True, False))
    segments = np.sort(np.concatenate([with_it[:3], without[: 5 - len(with_it[:3])]]))
    pairs = [(segment, places[0]) for segment in segments]
    pairs += [(segment, place) for place in places[1:] for segment in segments[:2]]
    rows = [(SEGMENT * segment, video.labels[place], shown[segment, place]) for segment, place in sorted(pairs)]
    return np.array(rows, np.int64)


_SURROUNDINGS_SEED = 8_000_001  # the surroundings look the same whatever the seed
_STRENGTHS, _PICTURES = 8, 9  # purposes of a video's streams; `world` has those below
_PICTURES_A_VIDEO = 10
_DEVIATION, _STRONGEST = 0.35, 2.0


@cache
def looks() -> Floats:
    """float32 [3862, SIZE], one a class."""
    stream = np.random.default_rng(_SURROUNDINGS_SEED)
    return stream.standard_normal((len(vocabulary.load()), SIZE), dtype=np.float32) * np.float32(_DEVIATION)


def surroundings(video: Video) -> Floats:
    """float32 [SIZE]: of all labels of a video together, each in a strength from 0 to 2."""
    strengths = video.stream(_STRENGTHS).uniform(0, _STRONGEST, len(video.labels)).astype(np.float32)
    return np.asarray(strengths @ looks()[video.labels], np.float32)


def pictures(video: Video, num_classes: int) -> Floats:
    """float32 [num_frames, SIZE]: in ten segments, the looks of a class that the video does not have."""
    stream = video.stream(_PICTURES)
    shown = np.zeros((video.num_frames, SIZE), np.float32)
    others = np.setdiff1d(rateable(num_classes), video.labels)
    starts = SEGMENT * stream.choice(video.num_frames // SEGMENT, _PICTURES_A_VIDEO, replace=False)
    for start in starts if len(others) else ():
        shown[start : start + SEGMENT] = prototypes()[0][stream.choice(others)]
    return shown
