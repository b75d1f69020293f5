"""Small sound or damaged shards of the three levels, written without TensorFlow, and queues that read them."""

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
    """A reader of the records that this module makes at a level."""
    if level == "video":
        return YT8MAggregatedFeatureReader(CLASSES, SIZES, **more)
    is_segment = level == "segment"
    return YT8MFrameFeatureReader(CLASSES, SIZES, max_frames=20, segment_labels=is_segment, **more)


def video(name: bytes = b"abcd", labels: Sequence[int] = (1, 9), **features: Any) -> bytes:
    """A serialized Example of a video; a feature whose value is None is left out."""
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
    """A serialized SequenceExample with so many frames of rgb and audio; a feature is left out if it is None."""
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
    """A serialized Example that was cut exactly before its last entry, the labels."""
    labels = {"labels": shards.int64_feature([1, 9])}
    floats = {"mean_rgb": shards.float_feature([0.5, -1.0, 2.0]), "mean_audio": shards.float_feature([1.0, 0.0])}
    features = {"id": shards.bytes_feature(name), **floats}
    whole, without = shards.example({**features, **labels}), shards.example(features)
    return whole[: len(without)]


def record(level: str, name: bytes) -> bytes:
    """A sound record of a level."""
    return video(name) if level == "video" else frames(name, rated=level == "segment")


def shard(payloads: Sequence[bytes]) -> bytes:
    """The bytes of a shard with these records."""
    return b"".join(map(shards.framed, payloads))


def sound(level: str, count: int = 6, prefix: str = "v") -> list[bytes]:
    """Sound records of a level with the ids v0, v1, ..."""
    return [record(level, f"{prefix}{number}".encode()) for number in range(count)]


def write(path: pathlib.Path, payloads: Sequence[bytes]) -> str:
    """Writes a shard; returns its path."""
    path.write_bytes(shard(payloads))
    return str(path)


def queue(level: str, pattern: object, **more: Any) -> BatchQueue:
    """A queue that reads the shards of a level that match the pattern."""
    return BatchQueue(reader(level), str(pattern), more.pop("batch_size", 4), **more)


def ids_read(batch_queue: BatchQueue) -> list[str]:
    """Reads all batches of a queue in a session, and closes the queue; returns the ids in order."""
    try:
        return _ids_read(batch_queue)
    finally:
        batch_queue.close()


def _ids_read(batch_queue: BatchQueue) -> list[str]:
    all_ids: list[str] = []
    with tf.Graph().as_default(), tf.Session() as session:
        files = tf.placeholder(tf.string, [None])
        iterator = tf.data.make_initializable_iterator(batch_queue.dataset(files, batch_queue.batch_size))
        ids = iterator.get_next().video_ids
        session.run(iterator.initializer, {files: batch_queue.files()})
        try:
            while True:
                all_ids += [name.decode() for name in session.run(ids)]
        except tf.errors.OutOfRangeError:
            return all_ids
