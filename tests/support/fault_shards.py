"""Small shards of the three formats, written without TensorFlow, and what a queue makes of damaged ones."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from yt8m.lazy import tf
from yt8m.readers import BatchQueue, Reader, YT8MAggregatedFeatureReader, YT8MFrameFeatureReader
from yt8m.records import shards

CLASSES, SIZES = 10, (3, 2)
LEVELS = ("video", "frame", "segment")


def reader(level: str, **more: Any) -> Reader:
    """For the shards below."""
    if level == "video":
        return YT8MAggregatedFeatureReader(CLASSES, SIZES, **more)
    is_segment = level == "segment"
    return YT8MFrameFeatureReader(CLASSES, SIZES, max_frames=20, segment_labels=is_segment, **more)


def video(name: bytes = b"abcd", labels: Sequence[int] = (1, 9), **features: Any) -> bytes:
    """An Example; a feature of None is left out."""
    values: dict[str, Any] = {"mean_rgb": [0.5, -1.0, 2.0], "mean_audio": [1.0, 0.0], **features}
    floats = {key: shards.float_feature(value) for key, value in values.items() if value is not None}
    context = {"id": shards.bytes_feature(name), "labels": shards.int64_feature(labels)}
    return shards.example({**context, **floats})


def frames(
    name: bytes = b"abcd",
    rgb: int | None = 4,
    audio: int | None = 4,
    sizes: tuple[int, int] = SIZES,
    rated: bool = False,
    labels: Sequence[int] = (1, 9),
) -> bytes:
    """A SequenceExample with so many frames; a feature of None is left out."""
    context = {"id": shards.bytes_feature(name), "labels": shards.int64_feature(labels)}
    if rated:
        context["segment_start_times"] = shards.int64_feature([0, 1])
        context["segment_labels"] = shards.int64_feature([2, 3])
        context["segment_scores"] = shards.float_feature([0.0, 1.0])
    lists = {}
    for key, count, size in (("rgb", rgb, sizes[0]), ("audio", audio, sizes[1])):
        if count is not None:
            lists[key] = shards.frame_features(np.full([count, size], 200, np.uint8))
    return shards.sequence_example(context, lists)


def cut_before_labels(name: bytes = b"cut") -> bytes:
    """A video whose last entry, its labels, is cut away; everything before that is whole."""
    labels = {"labels": shards.int64_feature([1, 9])}
    floats = {"mean_rgb": shards.float_feature([0.5, -1.0, 2.0]), "mean_audio": shards.float_feature([1.0, 0.0])}
    features = {"id": shards.bytes_feature(name), **floats}
    whole, without = shards.example({**features, **labels}), shards.example(features)
    return whole[: len(without)]


def record(level: str, name: bytes) -> bytes:
    """A sound record."""
    return video(name) if level == "video" else frames(name, rated=level == "segment")


def shard(payloads: Sequence[bytes]) -> bytes:
    """The bytes of a shard."""
    return b"".join(map(shards.framed, payloads))


def sound(level: str, count: int = 6, prefix: str = "v") -> list[bytes]:
    """Records v0, v1, ..."""
    return [record(level, f"{prefix}{number}".encode()) for number in range(count)]


def write(path: pathlib.Path, payloads: Sequence[bytes]) -> str:
    """Writes a shard; returns its path."""
    path.write_bytes(shard(payloads))
    return str(path)


def queue(level: str, pattern: object, **more: Any) -> BatchQueue:
    """A queue over files that match."""
    return BatchQueue(reader(level), str(pattern), more.pop("batch_size", 4), **more)


def ids_read(given: BatchQueue) -> list[str]:
    """The ids that come out of a queue, in order; raises what the graph raises."""
    try:
        return _ids_read(given)
    finally:
        given.close()


def _ids_read(given: BatchQueue) -> list[str]:
    found: list[str] = []
    with tf.Graph().as_default(), tf.Session() as session:
        files = tf.placeholder(tf.string, [None])
        iterator = tf.data.make_initializable_iterator(given.dataset(files, given.batch_size))
        ids = iterator.get_next().video_ids
        session.run(iterator.initializer, {files: given.files()})
        try:
            while True:
                found += [name.decode() for name in session.run(ids)]
        except tf.errors.OutOfRangeError:
            return found
