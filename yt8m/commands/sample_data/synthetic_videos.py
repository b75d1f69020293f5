"""Synthetic videos: their classes, when these show, and the features of their frames.

Each class has a prototype, a random vector with the size of a frame's features. A frame is the sum of

- a vector that all videos share,
- a vector of its video,
- for each class of the video: amplitude x activity (0 or 1 in this frame) x prototype,
- noise.

All of these are normal and in the range that the real features are quantised from, so a model must learn to
recognise prototypes. Everything is drawn from random streams whose key names what is drawn (seed, split, number
of the video, purpose). So a video does not depend on how many others are generated, or on its shard.

Videos with rated segments are harder, as real ones are. A guitar comes with a stage, which is there in every
shot, while the guitar is there in some: the surroundings of a class are a second vector that is added to all
frames. A model of whole videos learns the stage as well and cannot tell when the guitar shows; rated segments
of the same videos teach it. The strength of the surroundings varies by video, so that segments of different
videos cannot be ranked by them either. And a poster of a guitar is in view for five seconds of a video that has
none: a decoy, which only a model that has seen the whole video can tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from yt8m.records import vocabulary

Floats = NDArray[np.float32]

RGB, AUDIO = 1024, 128
SIZE = RGB + AUDIO
SEGMENT = 5  # frames
FRAMES = (120, 300)  # of the shortest and the longest published video

# Standard deviations of the parts of a feature: together 0.8, so that few values are outside of -2..2, and with
# enough signal for LogisticModel to get well above a GAP of 0.5 in some hundred steps.
_COMMON, _OFFSET, _PROTOTYPE, _NOISE, _SURROUNDINGS = 0.25, 0.25, 0.35, 0.4, 0.35
_STRONGEST_SURROUNDINGS = 2.0
_MORE_LABELS = 2.05  # 1 + Poisson of it, less those drawn twice: 3.0 labels a video
_DECOYS = 10  # segments of a video
_BLOCK = 256  # videos that share a stream for their labels
_ALPHABET = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_IDS = 62**4
_PROTOTYPES_SEED, _SURROUNDINGS_SEED = 8_000_000, 8_000_001  # the classes look the same for every --seed
# Purposes of streams. None is 0: keys that differ only in zeros at the end give the same stream.
_LABELS, _OFFSETS, _MEANS, _FRAMES, _WINDOWS, _RATINGS, _, _STRENGTHS, _DECOY = range(1, 10)


@dataclass(frozen=True)
class Video:
    """One video without its frames.

    Attributes:
      key: seed, split and number; the key of its random streams.
      labels: int64 [L], ascending.
      amplitudes: float32 [L], how strongly each label shows.
      num_frames: 120 to 300 unless other lengths are asked for.
      offset: float32 [SIZE], what distinguishes this video from others with the same labels.
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
        """Random numbers of this video and purpose alone."""
        return np.random.default_rng((*self.key, purpose))


def videos(
    seed: int, split: int, count: int, num_classes: int, segments: bool = False, lengths: tuple[int, int] = FRAMES
) -> Iterator[Video]:
    """The first `count` videos of a split.

    Args:
      seed: of the data set.
      split: number of the split.
      count: how many videos.
      num_classes: the classes are 0 to num_classes - 1.
      segments: each video has a class that segments are rated for.
      lengths: frames of the shortest and of the longest video.
    """
    for start in range(0, count, _BLOCK):
        key = (seed, split, start)
        stream, offsets = np.random.default_rng((*key, _LABELS, 1 + segments)), np.random.default_rng((*key, _OFFSETS))
        counts = 1 + stream.poisson(_MORE_LABELS, _BLOCK)
        drawn = _draw(stream, np.arange(num_classes), int(counts.sum()))
        num_frames = stream.integers(lengths[0], lengths[1] + 1, _BLOCK)
        rated = _draw(stream, rateable(num_classes), _BLOCK)
        amplitudes = stream.uniform(0.7, 1.3, int(counts.sum()) + _BLOCK).astype(np.float32)
        ends = np.cumsum(counts)
        for place in range(min(_BLOCK, count - start)):
            begin, end = ends[place] - counts[place], ends[place]
            labels = np.append(rated[place], drawn[begin : end - 1]) if segments else drawn[begin:end]
            labels = np.unique(labels)
            offset = offsets.standard_normal(SIZE, dtype=np.float32) * np.float32(_OFFSET)
            yield Video(
                (seed, split, start + place), labels, amplitudes[begin:][: len(labels)], int(num_frames[place]), offset
            )


def _draw(stream: np.random.Generator, classes: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """`count` of the classes, with their frequencies in the training videos."""
    cumulated = np.cumsum(vocabulary.load().counts[classes])
    drawn = np.searchsorted(cumulated, stream.integers(0, cumulated[-1], count), side="right")
    return np.asarray(classes[drawn])


def rateable(num_classes: int) -> NDArray[np.int64]:
    """The classes that segments are rated for; all classes if the published ones are all above num_classes."""
    classes = vocabulary.segment_classes()
    return classes[classes < num_classes] if classes[0] < num_classes else np.arange(num_classes)


@cache
def prototypes() -> tuple[Floats, Floats]:
    """float32 [3862, SIZE], the prototypes of the classes, and [SIZE], what all videos share."""
    stream = np.random.default_rng(_PROTOTYPES_SEED)
    of_classes = stream.standard_normal((len(vocabulary.load()), SIZE), dtype=np.float32)
    return of_classes * np.float32(_PROTOTYPE), stream.standard_normal(SIZE, dtype=np.float32) * np.float32(_COMMON)


def mean_features(video: Video, temporal: bool = False) -> Floats:
    """float32 [SIZE]: the mean over the video's frames; they are generated only if `temporal`."""
    if temporal:
        return np.asarray(_float_frames(video, None, temporal=True).mean(axis=0))
    of_classes, common = prototypes()
    mean = video.offset + common
    for label, amplitude in zip(video.labels, video.amplitudes, strict=True):
        mean += amplitude * of_classes[label]
    noise = video.stream(_MEANS).standard_normal(SIZE, dtype=np.float32)
    return mean + noise * np.float32(_NOISE / np.sqrt(video.num_frames))


def frames(
    video: Video, activity: Floats | None = None, temporal: bool = False, around: Floats | float = 0.0
) -> NDArray[np.uint8]:
    """uint8 [num_frames, SIZE]: the bytes q for which q * 4/255 + 4/512 - 2 is nearest to the features.

    Args:
      video: the video.
      activity: float32 [num_frames, L], how much of each label is in each frame; None for all of it.
      temporal: see `_add_in_time`.
      around: float32 [SIZE] or [num_frames, SIZE], added to the frames.
    """
    features = _float_frames(video, activity, temporal) + np.float32(around)
    return np.asarray(np.clip((features + 2) * np.float32(255 / 4), 0, 255).astype(np.uint8))


def _float_frames(video: Video, activity: Floats | None, temporal: bool) -> Floats:
    """float32 [num_frames, SIZE]; see `frames`."""
    of_classes, common = prototypes()
    stream = video.stream(_FRAMES)
    made = stream.standard_normal((video.num_frames, SIZE), dtype=np.float32)
    made *= np.float32(_NOISE)
    made += video.offset + common
    for place, (label, amplitude) in enumerate(zip(video.labels, video.amplitudes, strict=True)):
        if temporal:
            _add_in_time(made, int(label), amplitude, stream)
        elif activity is None:
            made += amplitude * of_classes[label]
        else:
            made += np.outer(activity[:, place], amplitude * of_classes[label])
    return made


def _add_in_time(made: Floats, label: int, amplitude: np.float32, stream: np.random.Generator) -> None:
    """Adds a class that only time tells.

    Of each four classes two have the same two prototypes, in opposite order, which no mean over frames can
    tell; the other two show in one frame of fifty only, with twice the strength.
    """
    of_classes, _ = prototypes()
    half = len(made) // 2
    if label % 4 < 2:
        made[:half] += amplitude * of_classes[label]
        made[half:] += amplitude * of_classes[label ^ 1]
    else:
        flashes = max(len(made) // 50, 1)
        made[stream.choice(len(made), flashes, replace=False)] += 2 * amplitude * of_classes[label]


def windows(video: Video) -> NDArray[np.bool_]:
    """bool [num_frames // 5, L]: in which segments each label shows, about two of five."""
    stream = video.stream(_WINDOWS)
    shown = stream.random((video.num_frames // SEGMENT, len(video.labels))) < 0.4
    # Every label shows somewhere and is absent somewhere.
    first = stream.integers(0, len(shown), len(video.labels))
    labels = np.arange(len(video.labels))
    shown[first, labels], shown[(first + 1) % len(shown), labels] = True, False
    return shown


def ratings(video: Video, shown: NDArray[np.bool_], num_classes: int) -> NDArray[np.int64]:
    """int64 [R, 3]: start second, class and score (0 or 1) of each rating, by start.

    Five segments are rated for one class, three of them with it if there are as many; a second class of the
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


def segment_frames(video: Video, shown: NDArray[np.bool_], num_classes: int) -> NDArray[np.uint8]:
    """uint8 [num_frames, SIZE]: frames in which the labels show as `windows` says, with surroundings and decoys."""
    activity = np.zeros((video.num_frames, len(video.labels)), np.float32)
    activity[: len(shown) * SEGMENT] = np.repeat(shown, SEGMENT, axis=0)
    return frames(video, activity, around=surroundings(video) + decoys(video, num_classes))


@cache
def surroundings_of_classes() -> Floats:
    """float32 [3862, SIZE], one vector a class."""
    stream = np.random.default_rng(_SURROUNDINGS_SEED)
    return stream.standard_normal((len(vocabulary.load()), SIZE), dtype=np.float32) * np.float32(_SURROUNDINGS)


def surroundings(video: Video) -> Floats:
    """float32 [SIZE]: the sum over all labels of the video, each in a strength from 0 to 2."""
    strengths = video.stream(_STRENGTHS).uniform(0, _STRONGEST_SURROUNDINGS, len(video.labels)).astype(np.float32)
    return np.asarray(strengths @ surroundings_of_classes()[video.labels], np.float32)


def decoys(video: Video, num_classes: int) -> Floats:
    """float32 [num_frames, SIZE]: in ten segments, the prototype of a class that the video does not have."""
    stream = video.stream(_DECOY)
    shown = np.zeros((video.num_frames, SIZE), np.float32)
    others = np.setdiff1d(rateable(num_classes), video.labels)
    starts = SEGMENT * stream.choice(video.num_frames // SEGMENT, _DECOYS, replace=False)
    for start in starts if len(others) else ():
        shown[start : start + SEGMENT] = prototypes()[0][stream.choice(others)]
    return shown
