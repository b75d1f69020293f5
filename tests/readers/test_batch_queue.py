"""The queue: order, files, threads and the position that a run resumes at."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import pathlib
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from laws import examples
from reader_records import frame_record, video_record, write_shard

from yt8m.config.data_config import DataConfig
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.readers import (
    BatchQueue,
    EverySegmentReader,
    Reader,
    YT8MAggregatedFeatureReader,
    YT8MFrameFeatureReader,
    batch_queue,
    reader_for,
)
from yt8m.readers.cached_input import format_of, open_cache
from yt8m.records.shard_cache import ShardCache
from yt8m.types import Batch


class IdReader(Reader):
    """Takes only the ids out of the records, so that most of the time of a test is the queue's."""

    def __init__(self) -> None:
        super().__init__(1, (1,), ("none",))

    def prepare_serialized_examples(self, serialized: Any) -> Batch:
        ids = tf.io.parse_example(serialized, {"id": tf.io.FixedLenFeature([], tf.string)})["id"]
        return Batch(ids, (tf.zeros([tf.size(ids), 1]),), tf.ones_like(ids, tf.int32), None)

    def video_matrix(self, batch: Batch) -> Any:
        return batch.features[0]


READER = IdReader()
COUNTS = (4, 0, 7, 1, 5)
NAMES = [b"%d.%d" % (shard, row) for shard, count in enumerate(COUNTS) for row in range(count)]


@pytest.fixture(scope="module")
def shards(tmp_path_factory: Any) -> pathlib.Path:
    """Five shards of 4, 0, 7, 1 and 5 videos named `shard.row`."""
    folder: pathlib.Path = tmp_path_factory.mktemp("shards")
    for shard, count in enumerate(COUNTS):
        records = [video_record(id=[b"%d.%d" % (shard, row)], mean_rgb=[float(row)]) for row in range(count)]
        write_shard(folder / f"train{shard}.tfrecord", records)
    return folder


def batches(queue: BatchQueue, limit: int = 1000) -> list[list[bytes]]:
    """The ids of each batch until the data end."""
    found: list[list[bytes]] = []
    with tf.Graph().as_default(), tf.Session() as session:
        files = tf.placeholder(tf.string, [None])
        iterator = tf.data.make_initializable_iterator(queue.dataset(files, queue.batch_size))
        ids = iterator.get_next().video_ids
        session.run(iterator.initializer, {files: queue.files()})
        try:
            while len(found) < limit:
                found.append(session.run(ids).tolist())
        except tf.errors.OutOfRangeError:
            pass
    return found


def stream(queue: BatchQueue) -> list[bytes]:
    return [name for batch in batches(queue) for name in batch]


def test_without_shuffling_files_and_records_keep_their_order(shards: pathlib.Path) -> None:
    found = batches(BatchQueue(READER, f"{shards}/train*", batch_size=6, num_readers=3))
    assert [len(batch) for batch in found] == [6, 6, 5]
    assert [name for batch in found for name in batch] == NAMES


@given(st.integers(1, 20), st.integers(1, 3), st.integers(1, 6), st.integers(1, 30), st.integers(0, 2**31 - 1))
@examples(3, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_epoch_has_every_record_once(
    shards: pathlib.Path, batch_size: int, epochs: int, readers: int, buffer: int, seed: int
) -> None:
    queue = BatchQueue(
        READER,
        f"{shards}/train*",
        batch_size,
        epochs,
        shuffle=True,
        shuffle_buffer=buffer,
        num_readers=readers,
        seed=seed,
    )
    found = batches(queue)
    assert {len(batch) for batch in found[:-1]} <= {batch_size}
    assert 1 <= len(found[-1]) <= batch_size
    names = [name for batch in found for name in batch]
    for epoch in range(epochs):
        assert sorted(names[epoch * len(NAMES) : (epoch + 1) * len(NAMES)]) == sorted(NAMES)
    assert len(names) == epochs * len(NAMES)
    assert batches(queue) == found


def test_seeds_and_epochs_give_other_orders(shards: pathlib.Path) -> None:
    def names(seed: int) -> list[bytes]:
        return stream(BatchQueue(READER, f"{shards}/train*", 4, num_epochs=2, shuffle=True, num_readers=2, seed=seed))

    first = names(0)
    assert first != names(1)
    assert first[: len(NAMES)] != NAMES
    assert first[: len(NAMES)] != first[len(NAMES) :]


@pytest.mark.heavy
def test_files_are_shuffled_even_where_the_buffer_is_too_small_to(shards: pathlib.Path) -> None:
    orders = set()
    for seed in range(6):
        queue = BatchQueue(READER, f"{shards}/train*", 4, shuffle=True, shuffle_buffer=1, seed=seed)
        orders.add(tuple(dict.fromkeys(name.split(b".")[0] for name in stream(queue))))
    assert len(orders) > 3
    assert {frozenset(order) for order in orders} == {frozenset([b"0", b"2", b"3", b"4"])}


@pytest.mark.parametrize("readers", [3, *(pytest.param(number, marks=pytest.mark.heavy) for number in (2, 8))])
def test_the_number_of_cores_does_not_change_the_order(
    shards: pathlib.Path, readers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = BatchQueue(READER, f"{shards}/train*", 4, num_epochs=2, shuffle=True, num_readers=readers)
    streams = []
    for cores in (1, 32):
        monkeypatch.setattr("yt8m.cores.usable", lambda cores=cores: cores)
        streams.append(stream(queue))
    assert streams[0] == streams[1]


def test_without_a_number_of_epochs_it_goes_on(shards: pathlib.Path) -> None:
    queue = BatchQueue(READER, f"{shards}/train*", 17, num_epochs=None, shuffle=True)
    found = batches(queue, limit=7)
    assert [Counter(batch) for batch in found] == [Counter(NAMES)] * 7


def test_patterns_may_overlap_and_come_with_commas_or_in_a_list(shards: pathlib.Path) -> None:
    expected = [str(shards / f"train{n}.tfrecord") for n in (0, 1, 2)]
    overlapping = f"{shards}/train2*, {shards}/train[0-2]*"
    assert BatchQueue(READER, overlapping).files() == expected
    assert BatchQueue(READER, overlapping.split(", ")).files() == expected


def test_a_path_with_a_comma_is_one_path(tmp_path: pathlib.Path) -> None:
    path = write_shard(tmp_path / "a,b.tfrecord", [video_record(id=[b"x"], mean_rgb=[1.0])])
    assert BatchQueue(READER, path).files() == [path]


@pytest.mark.promise("I8")
@pytest.mark.parametrize("pattern", ["{}/none*", "{}/train*,{}/none*", "", "{}/train*,"])
def test_a_pattern_without_a_file_is_named(shards: pathlib.Path, pattern: str) -> None:
    with pytest.raises(UsageError, match=r"'(.*/none\*)?'"):
        BatchQueue(READER, pattern.replace("{}", str(shards))).files()


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("epochs", [1, None])
def test_no_file_at_all_fails_at_once(shuffle: bool, epochs: int | None) -> None:
    queue = BatchQueue(READER, "unused", num_epochs=epochs, shuffle=shuffle)
    queue.files = list  # type: ignore[method-assign]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"input files.*empty"):
        batches(queue)


def test_files_without_records_end_at_once(tmp_path: pathlib.Path) -> None:
    path = write_shard(tmp_path / "empty.tfrecord", [])
    assert batches(BatchQueue(READER, path)) == []


@pytest.mark.promise("I8")
def test_a_shard_that_vanished_is_named(tmp_path: pathlib.Path) -> None:
    path = write_shard(tmp_path / "gone.tfrecord", [])
    queue = BatchQueue(READER, path)
    queue.keep_opened()
    os.unlink(path)
    with pytest.raises(tf.errors.NotFoundError, match=r"gone\.tfrecord"):
        batches(queue)


def test_a_flipped_bit_ends_in_an_error(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "flipped.tfrecord"
    write_shard(path, [video_record(id=[b"x"], mean_rgb=[1.0])])
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    with pytest.raises(tf.errors.DataLossError, match="corrupted record at 12"):
        batches(BatchQueue(READER, str(path)))


@pytest.mark.parametrize("name", ["batch_size", "num_epochs", "shuffle_buffer", "num_readers"])
def test_numbers_below_one_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"--{name} is -1"):
        BatchQueue(READER, "x", **{name: -1})


def test_segments_fill_whole_batches(tmp_path: pathlib.Path) -> None:
    """Records have any number of rated segments, none too; batches have batch_size segments."""
    counts = [3, 0, 0, 5, 1] * 12
    records = []
    for n, count in enumerate(counts):
        context = {"id": [b"%d" % n]}
        ratings = {"segment_start_times": range(count), "segment_labels": [1] * count, "segment_scores": [1.0] * count}
        records.append(frame_record({**context, **ratings}, {"rgb": np.zeros([9, 1], np.uint8)}))
    path = write_shard(tmp_path / "segments.tfrecord", [records[1]] * 200 + records)
    reader = YT8MFrameFeatureReader(5, (1,), ("rgb",), segment_labels=True)
    found = batches(BatchQueue(reader, path, batch_size=7))
    assert [name for batch in found for name in batch] == [
        b"%d" % n for n, count in enumerate(counts) for _ in range(count)
    ]
    assert {len(batch) for batch in found[:-1]} == {7}


def test_a_configuration_chooses_reader_and_queue(shards: pathlib.Path) -> None:
    data = DataConfig(
        data_pattern=f"{shards}/train*",
        feature_names=("mean_rgb",),
        feature_sizes=(1,),
        num_classes=5,
        batch_size=6,
        num_epochs=2,
    )
    assert isinstance(reader_for(data), YT8MAggregatedFeatureReader)
    assert stream(BatchQueue.for_config(data, "eval")) == NAMES
    assert stream(BatchQueue.for_config(data, "infer")) == NAMES
    trained = stream(BatchQueue.for_config(data, "train"))
    assert trained != NAMES * 2
    assert sorted(trained) == sorted(NAMES * 2)
    with pytest.raises(ValueError, match="mode is 'test'"):
        BatchQueue.for_config(data, "test")


def test_a_configuration_of_frames_and_segments() -> None:
    settings_ = {"feature_names": ("rgb",), "feature_sizes": (8,), "frame_features": True, "max_frames": 60}
    reader = reader_for(DataConfig(**settings_, segment_labels=True, segment_size=3, num_classes=9))
    assert isinstance(reader, YT8MFrameFeatureReader)
    assert (reader.max_frames, reader.segment_labels, reader.segment_size) == (60, True, 3)
    assert (reader.feature_names, reader.feature_sizes, reader.num_classes) == (("rgb",), (8,), 9)


@pytest.mark.parametrize(
    ("count", "shuffle"),
    [(7, True), *(pytest.param(*kind, marks=pytest.mark.heavy) for kind in ((2, True), (2, False), (7, False)))],
)
def test_shares_together_have_every_record_once(shards: pathlib.Path, count: int, shuffle: bool) -> None:
    queue = BatchQueue(READER, f"{shards}/train*", batch_size=3, shuffle=shuffle, num_readers=2)
    found = [stream(queue.share(index, count)) for index in range(count)]
    assert Counter(name for names in found for name in names) == Counter(NAMES)
    if not shuffle and count == 2:  # whole files where there are enough
        assert found[1] == [name for name in NAMES if name.startswith((b"1.", b"3."))]


def test_flags_override_the_choice_which_is_told_and_the_stream_stays(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    for shard in range(3):
        records = [video_record(id=[b"%d.%d" % (shard, row)], mean_rgb=[float(row)]) for row in range(9)]
        write_shard(tmp_path / f"{shard}.tfrecord", records)
    data = DataConfig(
        data_pattern=f"{tmp_path}/*", feature_names=("mean_rgb",), feature_sizes=(1,), batch_size=4, num_epochs=2
    )
    with caplog.at_level(logging.INFO, logger="absl"):
        chosen = BatchQueue.for_config(data, "train")
        given = BatchQueue.for_config(dataclasses.replace(data, parse_threads=3, prefetch=4), "train")
        chosen.log_settings()
        given.log_settings()
    usual = batch_queue.threads_for(chosen.reader, shuffle=True)
    assert "--batch_size=4 " in caplog.messages[0]
    assert f"--parse_threads={usual.parse_calls} --prefetch={usual.prefetch} " in caplog.messages[0]
    assert "--parse_threads=3 --prefetch=4" in caplog.messages[1]
    found = batches(chosen)
    assert batches(given) == found
    assert sorted(one for batch in found for one in batch).count(b"2.8") == 2


@pytest.mark.parametrize(("cores", "usual", "for_segments"), [(1, 1, 1), (2, 1, 2), (6, 3, 6), (64, 4, 8)])
def test_all_cores_parse_where_segments_are_evaluated(
    cores: int, usual: int, for_segments: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yt8m.cores.usable", lambda: cores)
    frames = DataConfig(data_pattern="*", feature_names=("rgb",), feature_sizes=(4,), frame_features=True)
    segments = dataclasses.replace(frames, segment_labels=True)
    for data, mode, expected in (
        (segments, "eval", for_segments),
        (segments, "train", usual),
        (frames, "eval", usual),
        (dataclasses.replace(segments, parse_threads=3), "eval", 3),
    ):
        threads = BatchQueue.for_config(data, mode).threads
        assert threads.parse_calls == expected
        assert (threads.prefetch == 0) == (data is frames)  # batches of whole videos are large
    assert BatchQueue(EverySegmentReader(), "*", 4).threads.parse_calls == usual


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
    ("write", "cores"),
    [
        (write_videos, 16),
        *(pytest.param(write, 2, marks=pytest.mark.heavy) for write in (write_videos, write_frames, write_segments)),
    ],
)
def test_a_restored_iterator_goes_on_with_the_same_batches(
    tmp_path: pathlib.Path, write: Any, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yt8m.cores.usable", lambda: cores)
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


def test_files_in_a_bucket_are_read_through_a_buffer_whatever_is_named_before_them(monkeypatch: pytest.MonkeyPatch):
    sizes: list[int] = []
    monkeypatch.setattr(tf.data, "TFRecordDataset", lambda _, buffer_size: sizes.append(buffer_size))
    for pattern in ("a.tfrecord", "gs://bucket/b.tfrecord", "a.tfrecord,gs://bucket/b.tfrecord"):
        BatchQueue(YT8MFrameFeatureReader(), pattern)._all_records(pattern)
    assert sizes == [0, 256 << 10, 256 << 10]


@pytest.mark.parametrize(
    ("changed", "offers"),
    [({}, True), ({"num_epochs": 1}, False), ({"cache": "folder"}, False), ({"frame_features": False}, False)],
)
def test_a_cache_of_frames_is_offered_where_it_helps(
    tmp_path: pathlib.Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    changed: dict[str, Any],
    offers: bool,
) -> None:
    monkeypatch.setattr(batch_queue, "_LEAST_TO_CACHE", 1)
    record = frame_record({"id": [b"v"], "labels": [1]}, {"rgb": np.zeros((3, 4), np.uint8)})
    write_shard(tmp_path / "a.tfrecord", [record])
    usual = DataConfig(
        data_pattern=f"{tmp_path}/*.tfrecord",
        feature_names=("rgb",),
        feature_sizes=(4,),
        frame_features=True,
        num_classes=3,
    )
    queue = BatchQueue.for_config(dataclasses.replace(usual, **changed), "train")
    with caplog.at_level(logging.INFO):
        queue.log_settings()
    assert ("--cache=auto" in caplog.text) == offers
    caplog.clear()
    monkeypatch.setattr(batch_queue, "_LEAST_TO_CACHE", 10**6)  # the file is smaller
    with caplog.at_level(logging.INFO):
        queue.log_settings()
    assert "--cache=auto" not in caplog.text


def test_the_offer_of_a_cache_states_the_disk_space_that_the_cache_will_need_at_most(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (300, 16)).astype(np.uint8)
    for name in ("a", "b"):
        records = [frame_record({"id": [b"%d" % i], "labels": [1]}, {"rgb": frames}) for i in range(20)]
        write_shard(tmp_path / f"{name}.tfrecord", records)
    config = DataConfig(
        *(f"{tmp_path}/*.tfrecord",), feature_names=("rgb",), feature_sizes=(16,), frame_features=True, num_classes=3
    )
    queue = BatchQueue.for_config(config, "train")
    shards, cache = queue.files(), ShardCache(str(tmp_path / "cache"), format_of(queue.reader))
    for shard in shards:
        cache.parse_shard(shard, cache.path_of(shard))
    size_of_cache = sum(path.stat().st_size for path in (tmp_path / "cache").iterdir())
    assert 40 * frames.nbytes < size_of_cache <= sum(map(os.path.getsize, shards))
    os.truncate(shards[0], 1_230_000_000)  # a sparse file, which takes no space
    with caplog.at_level(logging.INFO):
        queue.log_settings()
    assert re.search(r"--cache=auto\b.* 1\.2 GB", caplog.messages[-1])


def test_a_cache_named_auto_lies_in_the_cache_of_the_program(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_shard(tmp_path / "a.tfrecord", [video_record(id=[b"v"], labels=[1], mean_rgb=[1.0])])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    reader = YT8MAggregatedFeatureReader(3, (1,), ("mean_rgb",))
    open_cache("auto", reader, [str(tmp_path / "a.tfrecord")], skips_bad=False).begin_shard(
        str(tmp_path / "a.tfrecord")
    )
    assert [path.parent for path in tmp_path.rglob("*.parsed")] == [tmp_path / "home/yt8m/parsed"]
