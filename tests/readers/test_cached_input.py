"""A cache of parsed records changes nothing but the time that later passes take."""

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
from hypothesis import given
from hypothesis import strategies as st
from laws import examples
from reader_records import frame_record, video_record, write_shard

from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.readers import BatchQueue, EverySegmentReader, YT8MAggregatedFeatureReader, YT8MFrameFeatureReader
from yt8m.records.record_parser import RecordParser

COUNTS = (4, 0, 7, 1, 5)
RANGES = ((-1.0, 3.0), ())  # bytes of a range of one's own, and floats
READERS: dict[str, Any] = {
    "video": YT8MAggregatedFeatureReader(6, (3, 1), ("mean_rgb", "mean_audio")),
    "frame": YT8MFrameFeatureReader(6, (3, 1), max_frames=5),
    "floats": YT8MFrameFeatureReader(6, (3, 1), max_frames=5, feature_ranges=RANGES),
    "rated": YT8MFrameFeatureReader(6, (3, 1), max_frames=5, segment_labels=True, segment_size=2),
    "every": EverySegmentReader(6, (3, 1), max_frames=5, segment_size=2, context=1),
}
Batches = list[dict[str, Any]]


def kinds(*names: str, heavy: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """Runs a test for the readers of these names, and for further ones if heavy tests run."""
    further = (pytest.param(name, marks=pytest.mark.heavy) for name in heavy)
    return pytest.mark.parametrize("kind", [*names, *further], indirect=True, scope="module")


def record(kind: str, shard: int, row: int, first: float) -> bytes:
    """Ids of any length and end; labels unsorted, repeated and missing; up to 6 frames; ratings also past the end."""
    context = {"id": [b"%d.%d" % (shard, row) + b"\0" * (row % 3)], "labels": [row % 6, 1, 1, 0][: row % 5]}
    if kind == "video":
        context["labels"] = context["labels"] or None
        return video_record(**context, mean_rgb=[first + shard, row, -0.0], mean_audio=[np.float32(1e-42)])
    if kind == "rated":
        count = (0, 3, 1)[row % 3]
        ratings = {"times": [4, 0, 4][:count], "labels": [5, 0, 5][:count], "scores": [0.25, 1.0, 0.5][:count]}
        names = ("segment_start_times", "segment_labels", "segment_scores")
        context |= dict(zip(names, ratings.values(), strict=True))
    if kind == "every":
        context["labels"] = [99]  # more than there are classes: this reader reads no labels
    draw, length = np.random.default_rng([shard, row, int(first)]), (shard + 2 * row) % 7
    rgb = draw.integers(0, 256, (length, 3)).astype(np.uint8)
    audio = draw.normal(size=(length, 1)).astype(np.float32) if kind == "floats" else rgb[:, :1]
    return frame_record(context, {"rgb": rgb, "audio": audio})


def write(folder: pathlib.Path, kind: str = "video", first: float = 0.0) -> str:
    """Five shards."""
    folder.mkdir(exist_ok=True)
    for shard, count in enumerate(COUNTS):
        write_shard(folder / f"{shard}.tfrecord", [record(kind, shard, row, first) for row in range(count)])
    return f"{folder}/*.tfrecord"


@pytest.fixture(scope="module", params=READERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def pattern(kind: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("shards"), kind)


@pytest.fixture(scope="module")
def plain(pattern: str, kind: str) -> Batches:
    """What comes without a cache, shuffled as `queue` does it."""
    return batches(queue(pattern, kind=kind))


@pytest.fixture(scope="module")
def filled(pattern: str, kind: str, tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The folder of a cache that has all five shards, as a machine of many cores fills it; only to be read."""
    folder = tmp_path_factory.mktemp("filled")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("yt8m.cores.usable", lambda: 32)
        batches(queue(pattern, folder, kind=kind, num_epochs=1))
    return folder


@contextlib.contextmanager
def opened(queue: BatchQueue) -> Iterator[tuple[Any, dict[str, Any], Any]]:
    """A session, what it fetches of each batch, and a saver of the position."""
    with tf.Graph().as_default(), tf.Session() as session:
        files, begun = tf.placeholder(tf.string, [None]), tf.zeros([], tf.int64)
        is_numbered = queue.shard_order is not None
        size = queue.batch_size
        dataset = queue.numbered_dataset(files, size, begun) if is_numbered else queue.dataset(files, size)
        iterator = tf.data.make_initializable_iterator(dataset)
        saver = tf.train.Saver([tf.data.experimental.make_saveable_from_iterator(iterator)])
        batch, shards = iterator.get_next() if is_numbered else (iterator.get_next(), begun)
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
        for features in zip(ours["features"], theirs["features"], strict=True):
            np.testing.assert_array_equal(*map(np.signbit, features))


def queue(pattern: str, cache: Any = "", **more: Any) -> BatchQueue:
    options = {"batch_size": 4, "num_epochs": 2, "shuffle_buffer": 5, "num_readers": 2, "shuffle": True, **more}
    reader = options.pop("reader", READERS[options.pop("kind", "video")])
    return BatchQueue(reader, pattern, cache=str(cache), **options)


@kinds("floats", heavy=("video",))
@given(st.integers(1, 9), st.integers(1, 3), st.integers(1, 6), st.integers(1, 20), st.integers(0, 99))
@examples(2)
@pytest.mark.promise("I11")
def test_examples_and_their_order_are_those_without_it(
    pattern: str, kind: str, filled: pathlib.Path, size: int, epochs: int, readers: int, buffer: int, seed: int
) -> None:
    shape = {"batch_size": size, "num_epochs": epochs, "num_readers": readers, "shuffle_buffer": buffer}
    expected = batches(queue(pattern, kind=kind, seed=seed, **shape))
    assert_same(batches(queue(pattern, filled, kind=kind, seed=seed, **shape)), expected)


@pytest.mark.heavy
@kinds("rated", "video", "frame", "floats", "every")
def test_so_are_those_of_the_pass_that_fills_it(
    pattern: str, kind: str, tmp_path: pathlib.Path, plain: Batches
) -> None:
    assert_same(batches(queue(pattern, tmp_path, kind=kind)), plain)


@pytest.mark.heavy
@kinds("frame", "video", "floats", "rated", "every")
def test_so_are_those_of_a_pass_in_order(pattern: str, kind: str, filled: pathlib.Path) -> None:
    """And each shard is read to its end."""
    ordered = queue(pattern, filled, kind=kind, shuffle=False, num_epochs=1)
    ordered.count_reads()
    found = batches(ordered)
    assert_same(found, batches(queue(pattern, kind=kind, shuffle=False, num_epochs=1)))
    assert ordered.records_read == sum(COUNTS)


@kinds("video")
def test_another_pass_of_the_same_graph_reads_it_again(pattern: str, kind: str, filled: pathlib.Path) -> None:
    """As the validations of a training do, each of which closes the input."""
    ordered, passes = queue(pattern, filled, kind=kind, shuffle=False, num_epochs=1), []
    with tf.Graph().as_default() as graph:
        files = tf.placeholder(tf.string, [None])
        iterator = tf.data.make_initializable_iterator(ordered.dataset(files, 4))
        names = iterator.get_next().video_ids
    for _ in range(3):
        ordered.begin_again()
        with tf.Session(graph=graph) as session:
            session.run(iterator.initializer, {files: ordered.files()})
            passes.append([name for _ in range(0, sum(COUNTS), 4) for name in session.run(names).tolist()])
        ordered.close()
    assert passes[0] == passes[1] == passes[2]
    assert len(passes[0]) == sum(COUNTS)


@kinds("video", heavy=("rated",))
@pytest.mark.parametrize("cores", [1, 32])
def test_what_is_there_is_not_parsed_again(
    pattern: str, kind: str, filled: pathlib.Path, plain: Batches, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("yt8m.cores.usable", lambda: cores)
    made = sorted((path.name, path.stat().st_ino) for path in filled.iterdir())
    assert [name.split(".tfrecord")[0] for name, _ in made] == ["0", "1", "2", "3", "4"]
    monkeypatch.delattr(RecordParser, "batch")
    monkeypatch.delattr(RecordParser, "ratings")
    assert_same(batches(queue(pattern, filled, kind=kind)), plain)
    assert sorted((path.name, path.stat().st_ino) for path in filled.iterdir()) == made  # that of the empty shard too


@pytest.mark.heavy
@kinds("video")
@pytest.mark.parametrize("count", [2, 6])
def test_shares_together_have_every_record_once(pattern: str, kind: str, filled: pathlib.Path, count: int) -> None:
    """Fewer files than processes too."""
    found: Counter[bytes] = Counter()
    for index in range(count):
        parts = batches(queue(pattern, filled, kind=kind, num_epochs=1).share(index, count))
        if index in (0, count - 1):
            assert_same(parts, batches(queue(pattern, kind=kind, num_epochs=1).share(index, count)))
        found.update(name for batch in parts for name in batch["video_ids"].tolist())
    whole = batches(queue(pattern, kind=kind, shuffle=False, num_epochs=1))
    assert found == Counter(name for batch in whole for name in batch["video_ids"].tolist())


@kinds("rated", heavy=("video", "frame", "floats", "every"))
@pytest.mark.promise("I11")
def test_a_position_is_taken_up(pattern: str, kind: str, filled: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """In another process, that is another queue, whose cache is gone in the meantime."""
    with opened(queue(pattern, filled, kind=kind)) as (session, fetches, saver):
        for _ in range(3):
            session.run(fetches)
        path = saver.save(session, str(tmp_path / "input"))
        unbroken = [session.run(fetches) for _ in range(4)]
    with opened(queue(pattern, tmp_path / "cache", kind=kind)) as (session, fetches, saver):
        saver.restore(session, path)
        assert_same([session.run(fetches) for _ in range(4)], unbroken)


@pytest.mark.parametrize("kind", ["video", pytest.param("frame", marks=pytest.mark.heavy)])
@pytest.mark.promise("I11")
def test_a_shard_that_has_changed_is_parsed_anew(kind: str, tmp_path: pathlib.Path) -> None:
    shards, cache = write(tmp_path / "shards", kind), tmp_path / "cache"
    shards = shards.replace("*", "[02]")
    before = batches(queue(shards, cache, kind=kind))
    write(tmp_path / "shards", kind, first=100.0)  # as long as before
    after = batches(queue(shards, cache, kind=kind))
    assert_same(after, batches(queue(shards, kind=kind)))
    assert any((one["features"][0] != other["features"][0]).any() for one, other in zip(after, before, strict=True))


@pytest.mark.parametrize("kind", ["video", pytest.param("frame", marks=pytest.mark.heavy)])
@pytest.mark.promise("I11")
def test_so_is_one_of_the_same_size_and_time(kind: str, tmp_path: pathlib.Path) -> None:
    """As `tar`, `rsync -t` and `cp -p` leave it."""
    shards, cache = write(tmp_path / "shards", kind), tmp_path / "cache"
    found = []
    for first in (0.0, 100.0):
        write(tmp_path / "new", kind, first=first)
        for path in (tmp_path / "new").iterdir():
            os.utime(path, (1e9, 1e9))
            path.replace(tmp_path / "shards" / path.name)
        found.append(batches(queue(shards, cache, kind=kind)))
        assert_same(found[-1], batches(queue(shards, kind=kind)))
    assert any((one["features"][0] != other["features"][0]).any() for one, other in zip(*found, strict=True))


@kinds("video", heavy=("frame",))
@pytest.mark.promise("I11")
def test_a_file_that_becomes_shorter_while_it_is_read_is_made_anew(
    pattern: str, kind: str, filled: pathlib.Path, tmp_path: pathlib.Path, plain: Batches
) -> None:
    """A map of it would end the process by SIGBUS."""
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    with opened(queue(pattern, tmp_path, kind=kind, shuffle_buffer=1)) as (session, fetches, _):
        found = [session.run(fetches)]
        for path in tmp_path.glob("*.parsed"):
            os.truncate(path, 10)
        found += [session.run(fetches) for _ in plain[1:]]
    assert_same(found, batches(queue(pattern, kind=kind, shuffle_buffer=1)))


@pytest.mark.heavy
@pytest.mark.parametrize("kind", ["video", "frame"])
@pytest.mark.promise("I11")
def test_a_batch_may_have_records_of_more_shards_than_files_can_be_open(kind: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "shards").mkdir()
    count = 120
    for number in range(count):
        write_shard(tmp_path / f"shards/{number:03}.tfrecord", [record(kind, number, 0, 0.0)])
    shape: Any = {"kind": kind, "num_epochs": 1, "batch_size": count, "shuffle_buffer": count}
    plain = batches(queue(f"{tmp_path}/shards/*", **shape))
    limits, used = resource.getrlimit(resource.RLIMIT_NOFILE), len(os.listdir("/proc/self/fd"))
    for _ in range(2):  # once to fill the cache
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (used + 90, limits[1]))
            found = batches(queue(f"{tmp_path}/shards/*", tmp_path / "cache", **shape))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert_same(found, plain)


OTHERS = {
    "video": [
        YT8MAggregatedFeatureReader(7, (3, 1), ("mean_rgb", "mean_audio")),
        YT8MAggregatedFeatureReader(6, (1, 3), ("mean_audio", "mean_rgb")),
    ],
    "frame": [
        YT8MFrameFeatureReader(6, (3, 1), max_frames=4),
        YT8MFrameFeatureReader(6, (3,), ("rgb",), max_frames=5),
        EverySegmentReader(6, (3, 1), max_frames=5),
    ],
}


@pytest.mark.heavy
@pytest.mark.parametrize("kind", OTHERS, indirect=True, scope="module")
@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.promise("I11")
def test_another_reader_has_files_of_its_own(
    pattern: str, kind: str, filled: pathlib.Path, tmp_path: pathlib.Path, place: int
) -> None:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    two = pattern.replace("*", "[02]")
    for reader in OTHERS[kind][place : place + 1]:
        assert_same(batches(queue(two, tmp_path, reader=reader)), batches(queue(two, reader=reader)))


@kinds("video", heavy=("rated",))
@pytest.mark.promise("I11")
def test_damaged_files_are_made_anew(
    pattern: str, kind: str, filled: pathlib.Path, tmp_path: pathlib.Path, plain: Batches
) -> None:
    whole = {path.name: path.read_bytes() for path in filled.iterdir()}
    for (name, content), place in zip(sorted(whole.items()), (0, -1, 20, -5, len), strict=True):
        damaged = bytearray(content)
        if place is len:
            del damaged[len(content) // 2 :]
        else:
            damaged[place] ^= 4
        (tmp_path / name).write_bytes(damaged)
    assert_same(batches(queue(pattern, tmp_path, kind=kind)), plain)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == whole


@kinds("video", heavy=("rated",))
@pytest.mark.promise("I11")
def test_two_that_fill_it_at_once_do_not_disturb_each_other(
    pattern: str, kind: str, tmp_path: pathlib.Path, plain: Batches
) -> None:
    with (
        opened(queue(pattern, tmp_path, kind=kind)) as (one, first, _),
        opened(queue(pattern, tmp_path, kind=kind)) as (other, second, _),
    ):
        found = [(one.run(first), other.run(second)) for _ in plain]
    for side in zip(*found, strict=True):
        assert_same(list(side), plain)


@kinds("video", heavy=("rated",))
@pytest.mark.promise("I11")
def test_where_there_is_no_room_no_file_is_left(
    pattern: str, kind: str, tmp_path: pathlib.Path, plain: Batches
) -> None:
    broken = queue(pattern, tmp_path, kind=kind)
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
    assert_same(batches(queue(pattern, tmp_path, kind=kind)), plain)


@kinds(heavy=("frame",))
@pytest.mark.promise("I11")
def test_killed_while_it_is_filled_it_is_of_use(pattern: str, kind: str, tmp_path: pathlib.Path) -> None:
    """By SIGKILL in a process of its own, as soon as something is there."""
    fill = "t.batches(t.queue(sys.argv[1], sys.argv[2], num_epochs=None, kind='frame'))"
    code = f"import sys, test_cached_input as t; {fill}"
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
    assert_same(batches(queue(pattern, tmp_path, kind=kind)), batches(queue(pattern, kind=kind)))


@kinds("video", heavy=("rated",))
def test_what_a_killed_process_left_is_not_read(
    pattern: str, kind: str, filled: pathlib.Path, tmp_path: pathlib.Path, plain: Batches
) -> None:
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    for left in ("0.tfrecord.0123.parsed", ".0.tfrecord.0123.parsed.7.ab.tmp"):
        (tmp_path / left).write_bytes(b"half of a shard")
    next(tmp_path.glob("2.*")).rename(tmp_path / ".2.tfrecord.0123.parsed.7.ab.tmp")  # whole, but not yet renamed
    assert_same(batches(queue(pattern, tmp_path, kind=kind)), plain)


def test_a_bad_record_is_named_as_without_it(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "shards")
    write_shard(tmp_path / "shards/5.tfrecord", [video_record(id=[b"x"], mean_rgb=[1.0], mean_audio=[1.0])])
    found = []
    for cache in ("", tmp_path / "cache"):
        damaged = queue(f"{tmp_path}/shards/[45]*", cache)
        with pytest.raises(tf.errors.OpError, match=r"mean_rgb.* 1 .*3"):
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


def test_a_shard_that_vanished_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "gone").touch()
    gone = queue(f"{tmp_path}/gone", tmp_path / "cache")
    gone.keep_opened()
    (tmp_path / "gone").unlink()
    with pytest.raises(RunError, match="gone: "):
        batches(gone)


@pytest.mark.parametrize("kind", ["video", pytest.param("frame", marks=pytest.mark.heavy)])
@pytest.mark.promise("I11")
def test_a_pass_reads_the_version_of_a_shard_that_it_began(
    kind: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two shards stay open, the shuffle buffer has all records, and their shards become shorter or vanish meanwhile."""
    monkeypatch.setattr("yt8m.records.cached_records._MAX_OPEN", 2)
    shape: Any = {"kind": kind, "num_epochs": 1, "shuffle_buffer": sum(COUNTS), "batch_size": 1}
    shards = write(tmp_path / "shards", kind)
    expected = batches(queue(shards, tmp_path / "cache", **shape))
    with opened(queue(shards, tmp_path / "cache", **shape)) as (session, fetches, _):
        found = [session.run(fetches)]
        for number in np.flatnonzero(COUNTS):  # the pass may not have begun the empty shard yet
            write_shard(tmp_path / f"shards/{number}.tfrecord", [record(kind, 0, 0, 100.0)])
        (tmp_path / "shards/2.tfrecord").unlink()
        found += [session.run(fetches) for _ in range(sum(COUNTS) - 1)]
    assert_same(found, expected)
