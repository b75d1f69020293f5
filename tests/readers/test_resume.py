"""The position in the data can be saved, and a restored iterator gives the very batches that were to come."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from reader_records import frame_record, video_record, write_shard

from yt8m.lazy import tf
from yt8m.readers import BatchQueue, YT8MAggregatedFeatureReader, YT8MFrameFeatureReader


class Open(NamedTuple):
    session: Any
    fetches: dict[str, Any]
    saver: Any

    def batches(self, count: int) -> list[dict[str, Any]]:
        return [self.session.run(self.fetches) for _ in range(count)]


@contextlib.contextmanager
def opened(queue: BatchQueue) -> Iterator[Open]:
    """The queue in a graph and session of its own, initialised."""
    with tf.Graph().as_default(), tf.Session() as session:
        files = tf.placeholder(tf.string, [None])
        iterator = tf.data.make_initializable_iterator(queue.dataset(files, queue.batch_size))
        saver = tf.train.Saver([tf.data.experimental.make_saveable_from_iterator(iterator)])
        batch = iterator.get_next()._asdict()
        session.run(iterator.initializer, {files: queue.files()})
        yield Open(session, {name: value for name, value in batch.items() if value is not None}, saver)


def write_videos(folder: pathlib.Path) -> Any:
    for shard in range(6):
        records = [video_record(id=[b"%d.%d" % (shard, n)], labels=[n % 5], mean_rgb=[float(n)]) for n in range(9)]
        write_shard(folder / f"{shard}.tfrecord", records)
    return YT8MAggregatedFeatureReader(5, (1,), ("mean_rgb",))


def write_frames(folder: pathlib.Path) -> Any:
    for shard in range(6):
        records = [
            frame_record(
                {
                    "id": [b"%d.%d" % (shard, n)],
                    "labels": [n % 5],
                    "segment_start_times": list(range(n % 4)),
                    "segment_labels": [2] * (n % 4),
                    "segment_scores": [1.0] * (n % 4),
                },
                {"rgb": np.full([n, 2], n, np.uint8)},
            )
            for n in range(9)
        ]
        write_shard(folder / f"{shard}.tfrecord", records)
    return YT8MFrameFeatureReader(5, (2,), ("rgb",), max_frames=6)


def write_segments(folder: pathlib.Path) -> Any:
    write_frames(folder)
    return YT8MFrameFeatureReader(5, (2,), ("rgb",), segment_labels=True)


@pytest.mark.parametrize(
    ("write", "cores"), [(write_videos, 2), (write_videos, 16), (write_frames, 2), (write_segments, 2)]
)
def test_a_restored_iterator_goes_on_with_the_same_batches(
    tmp_path: pathlib.Path, write: Any, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yt8m.readers.batch_queue.cores", lambda: cores)
    queue = BatchQueue(
        write(tmp_path), f"{tmp_path}/*.tfrecord", 7, num_epochs=4, shuffle=True, shuffle_buffer=20, num_readers=3
    )
    with opened(queue) as first:
        first.batches(9)
        path = first.saver.save(first.session, str(tmp_path / "input"))
        unbroken = first.batches(12)
    with opened(queue) as second:
        second.saver.restore(second.session, path)
        resumed = second.batches(12)
    for ours, theirs in zip(resumed, unbroken, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, ours, theirs)
