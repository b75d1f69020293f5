"""Synthetic videos: the classes of each, the times at which each class shows, and the features of the frames.

Each class has a prototype, a random vector with the size of a frame's features. A frame is the sum of

- a vector that all videos share,
- a vector of its video,
- for each class of the video: amplitude x activity (0 or 1 in this frame) x prototype,
- noise.

All vectors are normally distributed, and most values are in the range of the real features, -2 to 2. A model must learn
to recognise prototypes. The key of each random stream is the seed, the split, the number of the video and the purpose.
So a video does not depend on its shard or on the number of videos.

Videos with rated segments are harder, as in the real data, because of surroundings and decoys. Example: a video with a
guitar has a stage in all frames, and the guitar in some. The stage is the surroundings of the class, a second vector,
which is added to all frames. A model of whole videos learns the stage too and cannot tell when the guitar shows; it
learns this from rated segments of the same videos. The strength of the surroundings varies by video, so it does not
help to rank segments of different videos either. A decoy is a guitar poster that shows for five seconds in a video
without a guitar. Only a model that has seen the whole video can recognise a decoy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from yt8m.records import vocabulary

Floats = NDArray[np.float32]

RGB, AUDIO = 1024, 128  # numbers of values of the two features of a frame
SIZE = RGB + AUDIO  # number of values of a frame; the RGB values come first
SEGMENT = 5  # number of frames of a segment; there is one frame per second
FRAMES = (120, 300)  # number of frames of the shortest and the longest published video

# Standard deviations of the terms of a feature: the vector of all videos, that of the video, that of a class, the
# noise, and the surroundings of a class. Without surroundings, the sum of the terms has a standard deviation of 0.8, so
# few values lie outside -2..2. The signal is strong enough for LogisticModel to get a GAP (global average precision)
# well above 0.5 in a few hundred steps.
_COMMON, _OFFSET, _PROTOTYPE, NOISE, _SURROUNDINGS = 0.25, 0.25, 0.35, 0.4, 0.35
_STRONGEST_SURROUNDINGS = 2.0  # in each video, the surroundings of a class are multiplied by a number from 0 to this
_MEAN_MORE_LABELS = 2.05  # labels are 1 + Poisson(2.05) draws without duplicates: 3.0 labels per video on average
_SHARE_SHOWN = 0.4  # share of the segments, or frames, in which a label of a video with rated segments shows
_DECOYS = 10  # number of decoy segments per video
_BLOCK = 256  # number of videos whose labels come from the same stream
# The characters of an id.
_ALPHABET = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_IDS = 62**4  # number of ids of four characters
# The seeds of the vectors of the classes do not depend on --seed, so the classes look the same for every --seed.
_PROTOTYPES_SEED, _SURROUNDINGS_SEED = 8_000_000, 8_000_001
# What each random stream is for: a number in its key. The numbers start at 1, because two keys that differ only in
# zeros at the end give the same stream. No stream has the number 7.
_LABELS, _OFFSETS, _MEANS, _FRAMES, _WINDOWS, _RATINGS, _, _STRENGTHS, _DECOY = range(1, 10)


@dataclass(frozen=True)
class Video:
    """One video without its frames.

    Attributes:
      key: the seed, the number of the split, and the number of the video in the split. The keys of all random streams
        of the video begin with these three.
      labels: int64 [L], ascending.
      amplitudes: float32 [L], how strongly each label shows.
      num_frames: number of frames; 120 to 300 by default.
      offset: float32 [SIZE], what distinguishes this video from others with the same labels.
    """

    key: tuple[int, int, int]
    labels: NDArray[np.int64]
    amplitudes: Floats
    num_frames: int
    offset: Floats
    noise: float = NOISE

    @property
    def id(self) -> bytes:
        """Four characters, like the real ids; unique within a data set."""
        _, split, number = self.key
        # Videos get different ids, because a multiplication modulo _IDS by a number coprime to _IDS is one-to-one.
        scattered = (split * (_IDS // 3) + number) * 10_007_653 % _IDS
        return bytes(_ALPHABET[scattered // 62**index % 62] for index in range(4))

    def stream(self, purpose: int) -> np.random.Generator:
        """A new generator at the beginning of the random stream of this video for a purpose, such as `_FRAMES`."""
        return np.random.default_rng((*self.key, purpose))


def videos(
    seed: int,
    split: int,
    count: int,
    num_classes: int,
    segments: bool = False,
    lengths: tuple[int, int] = FRAMES,
    noise: float = NOISE,
) -> Iterator[Video]:
    """Yields the first `count` videos of a split.

    Args:
      split: number of the split, from 0.
      num_classes: the classes are 0 to num_classes - 1.
      segments: whether each video gets at least one class for which segments are rated.
    """
    for start in range(0, count, _BLOCK):
        key = (seed, split, start)
        stream, offsets = np.random.default_rng((*key, _LABELS, 1 + segments)), np.random.default_rng((*key, _OFFSETS))
        counts = 1 + stream.poisson(_MEAN_MORE_LABELS, _BLOCK)
        drawn = draw_classes(stream, np.arange(num_classes), int(counts.sum()))
        num_frames = stream.integers(lengths[0], lengths[1] + 1, _BLOCK)
        rated = draw_classes(stream, rated_classes(num_classes), _BLOCK)
        amplitudes = stream.uniform(0.7, 1.3, int(counts.sum()) + _BLOCK).astype(np.float32)
        ends = np.cumsum(counts)
        for index in range(min(_BLOCK, count - start)):
            begin, end = ends[index] - counts[index], ends[index]
            labels = np.append(rated[index], drawn[begin : end - 1]) if segments else drawn[begin:end]
            labels = np.unique(labels)
            offset = offsets.standard_normal(SIZE, dtype=np.float32) * np.float32(_OFFSET)
            strengths = amplitudes[begin:][: len(labels)]
            yield Video((seed, split, start + index), labels, strengths, int(num_frames[index]), offset, noise)


def draw_classes(stream: np.random.Generator, classes: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Draws classes with the frequencies that they have in the training videos of YouTube-8M."""
    cumulated = np.cumsum(vocabulary.load().counts[classes])
    drawn = np.searchsorted(cumulated, stream.integers(0, cumulated[-1], count), side="right")
    return np.asarray(classes[drawn])


def rated_classes(num_classes: int) -> NDArray[np.int64]:
    """The classes below `num_classes` for which YouTube-8M's segments are rated; all classes if there are none."""
    classes = vocabulary.segment_classes()
    return classes[classes < num_classes] if classes[0] < num_classes else np.arange(num_classes)


@cache
def prototypes() -> tuple[Floats, Floats]:
    """The prototypes of the classes, float32 [3862, SIZE], and the vector that all videos share, float32 [SIZE]."""
    stream = np.random.default_rng(_PROTOTYPES_SEED)
    class_vectors = stream.standard_normal((len(vocabulary.load()), SIZE), dtype=np.float32)
    return class_vectors * np.float32(_PROTOTYPE), stream.standard_normal(SIZE, dtype=np.float32) * np.float32(_COMMON)


def mean_features(video: Video, temporal: bool = False) -> Floats:
    """The mean over the video's frames, float32 [SIZE].

    Args:
      temporal: whether classes can be recognised only by how the frames change over time (see `_add_temporal_class`).
        If so, the frames are generated and averaged. Otherwise the mean is computed without frames, and its noise is
        that of a frame divided by the square root of the number of frames.
    """
    if temporal:
        return np.asarray(_float_frames(video, None, temporal=True).mean(axis=0))
    class_vectors, common = prototypes()
    mean = video.offset + common
    for label, amplitude in zip(video.labels, video.amplitudes, strict=True):
        mean += amplitude * class_vectors[label]
    noise = video.stream(_MEANS).standard_normal(SIZE, dtype=np.float32)
    return mean + noise * np.float32(video.noise / np.sqrt(video.num_frames))


def frames(
    video: Video, activity: Floats | None = None, temporal: bool = False, extra: Floats | float = 0.0
) -> NDArray[np.uint8]:
    """The quantised frames, uint8 [num_frames, SIZE]: q is such that q * 4/255 + 4/512 - 2 is nearest to the feature.

    Args:
      activity: float32 [num_frames, L], factor of each label in each frame; None for 1 everywhere.
      extra: float32 [SIZE] or [num_frames, SIZE], added to the features before they are quantised; 0 adds nothing.
    """
    features = _float_frames(video, activity, temporal) + np.float32(extra)
    return np.asarray(np.clip((features + 2) * np.float32(255 / 4), 0, 255).astype(np.uint8))


def _float_frames(video: Video, activity: Floats | None, temporal: bool) -> Floats:
    """The frames before quantisation, float32 [num_frames, SIZE]; see `frames` for the arguments."""
    class_vectors, common = prototypes()
    stream = video.stream(_FRAMES)
    features = stream.standard_normal((video.num_frames, SIZE), dtype=np.float32)
    features *= np.float32(video.noise)
    features += video.offset + common
    for index, (label, amplitude) in enumerate(zip(video.labels, video.amplitudes, strict=True)):
        if temporal:
            _add_temporal_class(features, int(label), amplitude, stream)
        elif activity is None:
            features += amplitude * class_vectors[label]
        else:
            features += np.outer(activity[:, index], amplitude * class_vectors[label])
    return features


def _add_temporal_class(features: Floats, label: int, amplitude: np.float32, stream: np.random.Generator) -> None:
    """Adds a class to the frames so that it can be recognised only from how the frames change over time.

    The classes 4k and 4k + 1 share two prototypes, one for each half of the video, in opposite order: a mean over
    frames cannot tell these two classes apart. The classes 4k + 2 and 4k + 3 show only in one of fifty frames (at least
    in one), with twice the strength.

    Args:
      features: float32 [num_frames, SIZE], the frames, to which the class is added in place.
    """
    class_vectors, _ = prototypes()
    half = len(features) // 2
    if label % 4 < 2:
        features[:half] += amplitude * class_vectors[label]
        features[half:] += amplitude * class_vectors[label ^ 1]
    else:
        flashes = max(len(features) // 50, 1)
        features[stream.choice(len(features), flashes, replace=False)] += 2 * amplitude * class_vectors[label]


def activity(video: Video, event_frames: int = 0) -> NDArray[np.bool_]:
    """Whether each label shows in each frame, bool [num_frames, L]; a label shows in about two frames of five.

    Args:
      event_frames: number of frames for which a label shows at a time; this may begin at any frame. 0: a label shows
        in whole segments.
    """
    stream = video.stream(_WINDOWS)
    segments, labels = video.num_frames // SEGMENT, np.arange(len(video.labels))
    if event_frames:
        begins = stream.random((video.num_frames, len(labels))) < _SHARE_SHOWN / event_frames
        frame_numbers = np.arange(video.num_frames)[:, np.newaxis]
        last_begin = np.maximum.accumulate(np.where(begins, frame_numbers, -event_frames), axis=0)
        shown = frame_numbers - last_begin < event_frames
    else:
        shown = np.zeros((video.num_frames, len(labels)), np.bool_)
        shown[: segments * SEGMENT] = np.repeat(stream.random((segments, len(labels))) < _SHARE_SHOWN, SEGMENT, axis=0)
    # Every label shows in at least one segment and is absent from at least one.
    first = stream.integers(0, segments, len(labels))
    for index in range(SEGMENT):
        shown[first * SEGMENT + index, labels] = True
        shown[(first + 1) % segments * SEGMENT + index, labels] = False
    return shown


def shown_in_segments(shown: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether each of L labels shows in most frames of each segment, bool [T // 5, L].

    Frames after the last complete segment are ignored.

    Args:
      shown: bool [T, L], whether each label shows in each of T frames, as `activity` returns it.
    """
    frames_of_segments = shown[: len(shown) // SEGMENT * SEGMENT].reshape(-1, SEGMENT, shown.shape[1])
    return np.asarray(frames_of_segments.sum(axis=1) * 2 > SEGMENT)


def ratings(video: Video, shown: NDArray[np.bool_], num_classes: int) -> NDArray[np.int64]:
    """The ratings, int64 [R, 3]: start in seconds, class and score (0 or 1), by ascending start.

    Five segments are rated for one class. Three of them show the class if at least three segments of the video do. If
    the video has a second class for which segments are rated, the first two of the five segments are rated for it too.

    Args:
      shown: bool [segments, L], whether each label shows in each segment.
    """
    stream = video.stream(_RATINGS)
    label_indices = np.flatnonzero(np.isin(video.labels, rated_classes(num_classes)))
    label_indices = stream.permutation(label_indices)[:2]
    column = shown[:, label_indices[0]]
    positive_segments, negative_segments = (
        stream.permutation(np.flatnonzero(column == is_shown)) for is_shown in (True, False)
    )
    segments = np.sort(np.concatenate([positive_segments[:3], negative_segments[: 5 - len(positive_segments[:3])]]))
    pairs = [(segment, label_indices[0]) for segment in segments]
    pairs += [(segment, index) for index in label_indices[1:] for segment in segments[:2]]
    rows = [(SEGMENT * segment, video.labels[index], shown[segment, index]) for segment, index in sorted(pairs)]
    return np.array(rows, np.int64)


def segment_frames(video: Video, shown: NDArray[np.bool_], num_classes: int) -> NDArray[np.uint8]:
    """The frames with surroundings and decoys, uint8 [num_frames, SIZE].

    Args:
      shown: bool [num_frames, L], the result of `activity`.
    """
    return frames(video, shown.astype(np.float32), extra=surroundings(video) + decoys(video, num_classes))


@cache
def surroundings_of_classes() -> Floats:
    """The vector of surroundings of each class, float32 [3862, SIZE]; see the beginning of this file."""
    stream = np.random.default_rng(_SURROUNDINGS_SEED)
    return stream.standard_normal((len(vocabulary.load()), SIZE), dtype=np.float32) * np.float32(_SURROUNDINGS)


def surroundings(video: Video) -> Floats:
    """The sum of the surroundings of the video's labels, float32 [SIZE]; each has a random strength from 0 to 2."""
    strengths = video.stream(_STRENGTHS).uniform(0, _STRONGEST_SURROUNDINGS, len(video.labels)).astype(np.float32)
    return np.asarray(strengths @ surroundings_of_classes()[video.labels], np.float32)


def decoys(video: Video, num_classes: int) -> Floats:
    """The decoys of a video, float32 [num_frames, SIZE], to be added to its frames.

    Each of ten random segments (or of all, if there are fewer) gets the prototype of a rated class that is no label of
    the video; the other frames get 0.
    """
    stream = video.stream(_DECOY)
    features = np.zeros((video.num_frames, SIZE), np.float32)
    other_classes = np.setdiff1d(rated_classes(num_classes), video.labels)
    segments = video.num_frames // SEGMENT
    starts = SEGMENT * stream.choice(segments, min(_DECOYS, segments), replace=False)
    for start in starts if len(other_classes) else ():
        features[start : start + SEGMENT] = prototypes()[0][stream.choice(other_classes)]
    return features
