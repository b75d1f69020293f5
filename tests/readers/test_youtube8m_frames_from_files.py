"""Frames from shards to a model's input, against TensorFlow's own parser and the published formula."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from golden_data import golden
from hypothesis import given
from hypothesis import strategies as st
from laws import examples
from reader_records import frame_record, read_shard, write_shard

from yt8m.lazy import tf
from yt8m.readers import BatchQueue, YT8MFrameFeatureReader
from yt8m.video.transforms import mean_of_unit_frames

NAMES, CLASSES = ("rgb", "audio", "depth"), 20


class Video(NamedTuple):
    """What one record holds: the bytes of each feature, [frames, size], and its labels."""

    features: list[np.ndarray]
    labels: list[int]


def reference(records: Sequence[bytes], sizes: Sequence[int]) -> dict[bytes, Video]:
    """The videos by their ids, as `tf.io.parse_sequence_example` and `tf.io.decode_raw` read them."""
    names = NAMES[: len(sizes)]
    context = {"id": tf.io.FixedLenFeature([], tf.string), "labels": tf.io.VarLenFeature(tf.int64)}
    with tf.Graph().as_default(), tf.Session() as session:
        lists = {name: tf.io.VarLenFeature(tf.string) for name in names}
        parsed, found, _ = tf.io.parse_sequence_example(list(records), context, lists)
        decoded = {name: (found[name].indices, tf.io.decode_raw(found[name].values, tf.uint8)) for name in names}
        ids, labels, decoded = session.run([parsed["id"], parsed["labels"], decoded])
    videos = {}
    for row, name in enumerate(ids):
        features = [
            codes[at[:, 0] == row].reshape(-1, size)
            for (at, codes), size in zip((decoded[name] for name in names), sizes, strict=True)
        ]
        videos[name] = Video(features, labels.values[labels.indices[:, 0] == row].tolist())
    assert len(videos) == len(records)
    return videos


def batches_of(queue: BatchQueue) -> list[dict[str, Any]]:
    """Every batch of the queue, with its `matrix` of floats and the `mean` that a model of means is given."""
    found = []
    with tf.Graph().as_default(), tf.Session() as session:
        files = tf.placeholder(tf.string, [None])
        iterator = tf.data.make_initializable_iterator(queue.dataset(files, queue.batch_size))
        batch = iterator.get_next()
        fetches = {name: value for name, value in batch._asdict().items() if value is not None}
        fetches |= {"matrix": queue.reader.video_matrix(batch), "mean": mean_of_unit_frames(batch)}
        session.run(iterator.initializer, {files: queue.files()})
        while True:
            try:
                found.append(session.run(fetches))
            except tf.errors.OutOfRangeError:
                return found


def check(batch: dict[str, Any], videos: dict[bytes, Video], max_frames: int) -> None:
    """Compares every value of a batch with the reference."""
    expected = [videos[name] for name in batch["video_ids"]]
    kept = [min(len(video.features[0]), max_frames) for video in expected]
    assert batch["num_frames"].tolist() == kept
    longest = max(1, *kept)
    for row, (video, count) in enumerate(zip(expected, kept, strict=True)):
        assert np.flatnonzero(batch["labels"][row]).tolist() == sorted(set(video.labels))
        for feature, codes in zip(batch["features"], video.features, strict=True):
            assert feature.dtype == np.uint8
            assert feature.shape[1] == longest
            np.testing.assert_array_equal(feature[row, :count], codes[:count])
            assert not feature[row, count:].any()
        codes = np.concatenate(video.features, 1)[:count]
        published = codes.astype(np.float32) * np.float32(4 / 255) + np.float32(4 / 512 - 2)
        np.testing.assert_array_equal(batch["matrix"][row, :count], published)
        assert not batch["matrix"][row, count:].any()
        floats = codes * (4 / 255) + 4 / 512 - 2
        units = floats / np.linalg.norm(floats, axis=1, keepdims=True)
        mean = units.mean(0) if count else np.zeros(floats.shape[1])
        np.testing.assert_allclose(batch["mean"][row, 0], mean, rtol=0, atol=2e-7)


def check_shards(
    paths: Sequence[str], sizes: tuple[int, ...], max_frames: int, batch_size: int, shuffle: bool = False
) -> None:
    """Reads the shards once and compares all of their videos."""
    reader = YT8MFrameFeatureReader(CLASSES, sizes, NAMES[: len(sizes)], max_frames)
    queue = BatchQueue(reader, paths, batch_size, shuffle=shuffle, shuffle_buffer=3, num_readers=2)
    videos = reference([record for path in paths for record in read_shard(pathlib.Path(path))], sizes)
    seen: list[bytes] = []
    for batch in batches_of(queue):
        check(batch, videos, max_frames)
        seen += batch["video_ids"].tolist()
    assert sorted(seen) == sorted(videos)
    if not shuffle:
        assert seen == list(videos)


def made(counts: Sequence[int], labels: Sequence[list[int] | None], sizes: Sequence[int]) -> list[bytes]:
    """A record of random bytes for each number of frames; labels of None leave the list out."""
    draw = np.random.default_rng(len(counts))
    records = []
    for row, (count, classes) in enumerate(zip(counts, labels, strict=True)):
        frames = {
            name: draw.integers(0, 256, (count, size)).astype(np.uint8)
            for name, size in zip(NAMES, sizes, strict=False)
        }
        context = {"id": [b"%04d" % row]} | ({} if classes is None else {"labels": classes})
        records.append(frame_record(context, frames))
    return records


VIDEOS = st.lists(
    st.tuples(st.integers(0, 9), st.one_of(st.none(), st.lists(st.integers(0, CLASSES - 1), max_size=4))),
    min_size=1,
    max_size=9,
)


@pytest.mark.heavy
@pytest.mark.long
@examples(12)
@given(
    videos=VIDEOS,
    sizes=st.lists(st.integers(1, 7), min_size=1, max_size=len(NAMES)),
    max_frames=st.integers(1, 11),
    batch_size=st.integers(1, 4),
    shuffle=st.booleans(),
)
def test_a_batch_holds_what_the_records_say(
    videos: list[tuple[int, list[int] | None]], sizes: list[int], max_frames: int, batch_size: int, shuffle: bool
) -> None:
    counts, labels = zip(*videos, strict=True)
    records = made(counts, labels, sizes)
    half = len(records) // 2
    with tempfile.TemporaryDirectory() as folder:
        at = pathlib.Path(folder)
        paths = [write_shard(at / "a", records[:half]), write_shard(at / "b", records[half:])]
        check_shards(paths, tuple(sizes), max_frames, batch_size, shuffle)


@pytest.mark.parametrize("max_frames", [30, pytest.param(300, marks=pytest.mark.heavy)])
def test_so_does_a_batch_of_published_records(max_frames: int) -> None:
    check_shards([str(golden("tiny_frame.tfrecord")), str(golden("tiny_segment.tfrecord"))], (16, 8), max_frames, 5)


@pytest.mark.heavy
def test_so_does_a_batch_of_records_of_full_size(tmp_path: pathlib.Path) -> None:
    counts = [300, 120, 1, 0, 299, 320]
    records = made(counts, [[3], None, [], [0, 19], [5, 5], [1]], (1024, 128))
    check_shards([write_shard(tmp_path / "full", records)], (1024, 128), 300, 4)
