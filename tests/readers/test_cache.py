"""A cache of parsed videos changes nothing but the time that later passes take."""

from __future__ import annotations

import contextlib
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from laws import examples
from reader_records import video_record, write_shard

from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.readers import BatchQueue, YT8MAggregatedFeatureReader

from yt8m.records.record_parser import RecordParser

COUNTS = (4, 0, 7, 1, 5)
READER = YT8MAggregatedFeatureReader(6, (3, 1), ("mean_rgb", "mean_audio"))
Batches = list[dict[str, Any]]


def write(folder: pathlib.Path, first: float = 0.0) -> str:
    """Five shards; ids of any length and end, labels unsorted, repeated and missing."""
    folder.mkdir(exist_ok=True)
    for shard, count in enumerate(COUNTS):
        records = [
            video_record(
                id=[b"%d.%d" % (shard, row) + b"\0" * (row % 3)],
                labels=[row % 6, 1, 1, 0][: row % 5] or None,
                mean_rgb=[first + shard, row, -0.0],
                mean_audio=[np.float32(1e-42)],
            )
            for row in range(count)
        ]
        write_shard(folder / f"{shard}.tfrecord", records)
    return f"{folder}/*.tfrecord"


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("shards"))


@pytest.fixture(scope="module")
def plain(pattern: str) -> Batches:
    """What comes without a cache, shuffled as `queue` does it."""
    return batches(queue(pattern))


@pytest.fixture(scope="module")
def filled(pattern: str, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder of a cache that has all five shards, as a machine of many cores fills it; only to be read."""
    folder = tmp_path_factory.mktemp("filled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("yt8m.readers.batch_queue.cores", lambda: 32)
        batches(queue(pattern, folder, num_epochs=1))
    return folder


@contextlib.contextmanager
def opened(queue: BatchQueue) -> Iterator[tuple[Any, dict[str, Any], Any]]:
    """A session, what it fetches of each batch, and a saver of the position."""
    with tf.Graph().as_default(), tf.Session() as session:
        files, begun = tf.placeholder(tf.string, [None]), tf.zeros([], tf.int64)
        dataset = queue.numbered_dataset(files, queue.batch_size, begun)
        iterator = tf.data.make_initializable_iterator(dataset)
        saver = tf.train.Saver([tf.data.experimental.make_saveable_from_iterator(iterator)])
        batch, shards = iterator.get_next()
        there = {name: value for name, value in batch._asdict().items() if value is not None}
        session.run(iterator.initializer, {files: queue.files()})
        try:
            yield session, {**there, "shards": shards}, saver
        finally:
            queue.close()


def batches(queue: BatchQueue) -> Batches:
    found: Batches = []
    with opened(queue) as (session, fetches, _), contextlib.suppress(tf.errors.OutOfRangeError):
        while True:
            found.append(session.run(fetches))
    return found


def assert_same(found: Batches, expected: Batches) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        tf.nest.map_structure(np.testing.assert_array_equal, ours, theirs)
        assert [one.dtype for one in tf.nest.flatten(ours)] == [one.dtype for one in tf.nest.flatten(theirs)]
        signs = [np.signbit(batch["features"][0]) for batch in (ours, theirs)]
        np.testing.assert_array_equal(*signs)


def queue(pattern: str, cache: Any = "", **more: Any) -> BatchQueue:
    given_ = {"batch_size": 4, "num_epochs": 2, "shuffle_buffer": 5, "num_readers": 2, **more}
    return BatchQueue(given_.pop("reader", READER), pattern, shuffle=True, cache=str(cache), **given_)


@given(st.integers(1, 9), st.integers(1, 3), st.integers(1, 6), st.integers(1, 20), st.integers(0, 99))
@examples(3)
def test_examples_and_their_order_are_those_without_it(
    pattern: str, filled: pathlib.Path, size: int, epochs: int, readers: int, buffer: int, seed: int
) -> None:
    shape = {"batch_size": size, "num_epochs": epochs, "num_readers": readers, "shuffle_buffer": buffer}
    expected = batches(queue(pattern, seed=seed, **shape))
    assert_same(batches(queue(pattern, filled, seed=seed, **shape)), expected)


def test_so_are_those_of_the_pass_that_fills_it(pattern: str, tmp_path: pathlib.Path, plain: Batches) -> None:
    assert_same(batches(queue(pattern, tmp_path)), plain)


@pytest.mark.parametrize("cores", [1, 32])
def test_what_is_there_is_not_parsed_again(
    pattern: str, filled: pathlib.Path, plain: Batches, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yt8m.readers.batch_queue.cores", lambda: cores)
    made = sorted(path.name for path in filled.iterdir())
    assert [name.split(".tfrecord")[0] for name in made] == ["0", "1", "2", "3", "4"]
    monkeypatch.delattr(RecordParser, "batch")
    assert_same(batches(queue(pattern, filled)), plain)
    assert sorted(path.name for path in filled.iterdir()) == made


@pytest.mark.parametrize("count", [2, 6])
def test_shares_together_have_every_record_once(pattern: str, filled: pathlib.Path, count: int) -> None:
    """Fewer files than processes too."""
    found: Counter[bytes] = Counter()
    for index in range(count):
        parts = batches(queue(pattern, filled, num_epochs=1).share(index, count))
        if index in (0, count - 1):
            assert_same(parts, batches(queue(pattern, num_epochs=1).share(index, count)))
        found.update(name for batch in parts for name in batch["video_ids"].tolist())
    assert sorted(found.values()) == [1] * sum(COUNTS)


def test_a_position_is_taken_up(pattern: str, filled: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """In another process, that is another queue, whose cache is gone in the meantime."""
    with opened(queue(pattern, filled)) as (session, fetches, saver):
        for _ in range(3):
            session.run(fetches)
        path = saver.save(session, str(tmp_path / "input"))
        unbroken = [session.run(fetches) for _ in range(4)]
    with opened(queue(pattern, tmp_path / "cache")) as (session, fetches, saver):
        saver.restore(session, path)
        assert_same([session.run(fetches) for _ in range(4)], unbroken)


def test_a_shard_that_has_changed_is_parsed_anew(tmp_path: pathlib.Path) -> None:
    shards, cache = write(tmp_path / "shards"), tmp_path / "cache"
    shards = shards.replace("*", "[02]")
    before = batches(queue(shards, cache))
    write(tmp_path / "shards", first=100.0)  # as long as before
    after = batches(queue(shards, cache))
    assert_same(after, batches(queue(shards)))
    assert min(batch["features"][0][:, 0].min() for batch in after) >= 100 > before[0]["features"][0][0, 0]


@pytest.mark.parametrize(
    "reader",
    [
        YT8MAggregatedFeatureReader(7, (3, 1), ("mean_rgb", "mean_audio")),
        YT8MAggregatedFeatureReader(6, (1, 3), ("mean_audio", "mean_rgb")),
    ],
)
def test_another_reader_has_files_of_its_own(
    pattern: str, filled: pathlib.Path, tmp_path: pathlib.Path, reader: Any
) -> None:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    two = pattern.replace("*", "[02]")
    assert_same(batches(queue(two, tmp_path, reader=reader)), batches(queue(two, reader=reader)))


def damaged(content: bytes, at: int, bit: int | None) -> bytes:
    """With one bit changed, or cut."""
    if bit is None:
        return content[:at]
    return content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]


@given(st.integers(0, 4), st.integers(0, 1 << 20), st.none() | st.integers(0, 7))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_damaged_file_is_not_read(
    filled: pathlib.Path, tmp_path: pathlib.Path, shard: int, at: int, bit: int | None
) -> None:
    content = sorted(filled.iterdir())[shard].read_bytes()
    path = tmp_path / "shard"
    path.write_bytes(damaged(content, at % len(content), bit))
    assert read_shard(str(path)) is None
    path.write_bytes(content)
    assert len(read_shard(str(path))) == COUNTS[shard]


def test_damaged_files_are_made_anew(
    pattern: str, filled: pathlib.Path, tmp_path: pathlib.Path, plain: Batches
) -> None:
    whole = {path.name: path.read_bytes() for path in filled.iterdir()}
    for (name, content), bit in zip(sorted(whole.items()), (0, None, 7, None, None), strict=True):
        (tmp_path / name).write_bytes(damaged(content, len(content) // 2, bit))
    assert_same(batches(queue(pattern, tmp_path)), plain)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == whole


def test_two_that_fill_it_at_once_do_not_disturb_each_other(
    pattern: str, tmp_path: pathlib.Path, plain: Batches
) -> None:
    with opened(queue(pattern, tmp_path)) as (one, first, _), opened(queue(pattern, tmp_path)) as (other, second, _):
        found = [(one.run(first), other.run(second)) for _ in plain]
    for side in zip(*found, strict=True):
        assert_same(list(side), plain)


def test_where_there_is_no_room_no_file_is_left(pattern: str, tmp_path: pathlib.Path, plain: Batches) -> None:
    broken = queue(pattern, tmp_path)
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (200, unlimited[1]))
    try:
        with pytest.raises(tf.errors.OpError):
            batches(broken)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    failure = broken.damage()
    assert isinstance(failure, RunError)
    assert f"cannot write {tmp_path}" in str(failure)
    assert list(tmp_path.iterdir()) == []
    assert_same(batches(queue(pattern, tmp_path)), plain)


@pytest.mark.heavy
def test_killed_while_it_is_filled_it_is_of_use(pattern: str, tmp_path: pathlib.Path) -> None:
    """By SIGKILL in a process of its own, as soon as something is there."""
    code = "import sys, test_cache as t; t.batches(t.queue(sys.argv[1], sys.argv[2], num_epochs=None))"
    path = os.pathsep.join(sys.path)
    process = subprocess.Popen(
        [sys.executable, "-c", code, pattern, str(tmp_path)],
        env=os.environ | {"PYTHONPATH": f"{pathlib.Path(__file__).parent}{os.pathsep}{path}"},
    )
    try:
        while process.poll() is None and not any(tmp_path.iterdir()):
            time.sleep(0.001)
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()
    assert_same(batches(queue(pattern, tmp_path)), batches(queue(pattern)))


def test_what_a_killed_process_left_is_not_read(
    pattern: str, filled: pathlib.Path, tmp_path: pathlib.Path, plain: Batches
) -> None:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    for left in ("0.tfrecord.0123.arrays", ".0.tfrecord.0123.arrays.7.ab.tmp"):
        (tmp_path / left).write_bytes(b"half of a shard")
    next(tmp_path.glob("2.*")).rename(tmp_path / ".2.tfrecord.0123.arrays.7.ab.tmp")  # whole, but not yet renamed
    assert_same(batches(queue(pattern, tmp_path)), plain)


def test_a_bad_record_is_named_as_without_it(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "shards")
    write_shard(tmp_path / "shards/5.tfrecord", [video_record(id=[b"x"], mean_rgb=[1.0], mean_audio=[1.0])])
    found = []
    for cache in ("", tmp_path / "cache"):
        damaged = queue(f"{tmp_path}/shards/[45]*", cache)
        with pytest.raises(tf.errors.OpError, match="feature mean_rgb has 1 values, expected 3"):
            batches(damaged)
        found.append(str(damaged.damage()))
    assert "5.tfrecord: record 0: video x: feature mean_rgb" in found[0]
    assert found[0] == found[1]


@pytest.mark.promise("I3")
def test_a_record_cut_before_its_labels_is_named(tmp_path: pathlib.Path) -> None:
    whole = video_record(id=[b"x"], mean_rgb=[1.0, 2.0, 3.0], mean_audio=[1.0])
    cut = b"\n" + bytes([whole[1] + 8]) + whole[2:]  # 8 bytes more were to come
    (tmp_path / "shards").mkdir()
    write_shard(tmp_path / "shards/0.tfrecord", [whole, cut])
    damaged = queue(f"{tmp_path}/shards/*", tmp_path / "cache")
    with pytest.raises(tf.errors.OpError):
        batches(damaged)
    assert "0.tfrecord: record 1: it is not an Example or SequenceExample" in str(damaged.damage())


def test_a_shard_that_vanished_is_named(pattern: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "gone").touch()
    gone = queue(f"{tmp_path}/gone", tmp_path / "cache")
    gone.keep_files()
    (tmp_path / "gone").unlink()
    with pytest.raises(tf.errors.OpError):
        batches(gone)
    assert "gone: No such file" in str(gone.damage())
