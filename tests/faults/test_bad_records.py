"""A bad record is named; where it is borne, the rest of its shard is skipped, counted and told."""

from __future__ import annotations

import pathlib

import cases
import pytest
from fault_shards import cut_before_labels, ids_read, queue, shard, sound, write

from yt8m.lazy import tf
from yt8m.readers.damage import TooManyBadError

ALL_BUT_TWO = ["a0", "a1", "a2", "a3", "b0", "b1", "b2", "b3", "b4", "b5"]


def flipped(whole: bytes) -> bytes:
    """A bit of the content of the fifth of six records."""
    at = len(whole) * 5 // 6 - 20
    return whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :]


def with_junk(level: str, junk: bytes) -> bytes:
    return shard([*sound(level, 4, "a"), junk, *sound(level, 1, "z")])


@pytest.fixture(params=cases.all_of(["flip", "cut before its labels"], heavy=["bytes that are no text", "nothing"]))
def damaged(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with a damaged shard of videos and a sound one behind it."""
    junk = {"bytes that are no text": b"\xff\xfe\xfd" * 9, "nothing": b""}
    junk["cut before its labels"] = cut_before_labels()
    kind = request.param
    bad = flipped(shard(sound("video", 6, "a"))) if kind == "flip" else with_junk("video", junk[kind])
    (tmp_path / "a.tfrecord").write_bytes(bad)
    write(tmp_path / "b.tfrecord", sound("video", 6, "b"))
    return tmp_path


@pytest.mark.promise("I2")
@pytest.mark.promise("I3")
def test_the_rest_of_the_shard_is_skipped(damaged: pathlib.Path) -> None:
    reading = queue("video", damaged / "*.tfrecord", max_bad_records=1)
    assert ids_read(reading) == ALL_BUT_TWO
    (found,) = reading.tolerance.skipped.values()
    assert (found.path, found.record) == (f"{damaged}/a.tfrecord", 4)


@pytest.mark.promise("I2")
@pytest.mark.promise("I3")
def test_without_leave_the_record_is_named(damaged: pathlib.Path) -> None:
    reading = queue("video", damaged / "*.tfrecord")
    with pytest.raises((tf.errors.OpError, UnicodeDecodeError)):
        ids_read(reading)
    assert str(reading.damage()).startswith(f"{damaged}/a.tfrecord: record 4: ")


@pytest.mark.promise("I2")
@pytest.mark.promise("I3")
@pytest.mark.parametrize("level", cases.all_of(["video"], heavy=["segment"]))
def test_every_level_goes_on_shuffled_and_for_epochs(tmp_path: pathlib.Path, level: str) -> None:
    (tmp_path / "a.tfrecord").write_bytes(with_junk(level, b"\x0b"))
    (tmp_path / "c.tfrecord").write_bytes(flipped(shard(sound(level, 6, "c"))))
    write(tmp_path / "b.tfrecord", sound(level, 300, "b"))
    options = {"shuffle": True, "num_epochs": 2, "num_readers": 2, "shuffle_buffer": 10}
    reading = queue(level, tmp_path / "*.tfrecord", max_bad_records=2, **options)
    expected = [f"{shard}{n}" for shard, count in (("a", 4), ("b", 300), ("c", 4)) for n in range(count)]
    times = 4 if level == "segment" else 2  # two segments a record
    assert sorted(ids_read(reading)) == sorted(expected * times)
    assert [found.record for found in reading.tolerance.skipped.values()] == [4, 4]


@pytest.mark.promise("I2")
def test_one_too_many_ends_it(tmp_path: pathlib.Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.tfrecord").write_bytes(flipped(shard(sound("video", 6, name))))
    reading = queue("video", tmp_path / "*.tfrecord", max_bad_records=1)
    with pytest.raises(tf.errors.OpError):
        ids_read(reading)
    failure = reading.damage()
    assert isinstance(failure, TooManyBadError)
    assert "b.tfrecord: record 4: its checksum is wrong" in str(failure)
    assert str(failure).endswith("2 records are bad; --max_bad_records allows 1.")


@pytest.mark.promise("I1")
@pytest.mark.promise("I8")
def test_what_is_no_shard_counts_as_one_bad_record(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "a.tfrecord", sound("video", 3, "a"))
    (tmp_path / "b.tfrecord").touch()
    (tmp_path / "c.tfrecord").write_bytes(b"\x1f\x8b\x08 and so on, compressed")
    (tmp_path / "d.tfrecord").mkdir()
    (tmp_path / "e.tfrecord").write_bytes(shard(sound("video", 3, "e")) + b"\x01\x02\x03")
    reading = queue("video", tmp_path / "*.tfrecord", max_bad_records=4)
    assert ids_read(reading) == ["a0", "a1", "a2", "e0", "e1", "e2"]
    told = [found.what for found in reading.tolerance.skipped.values()]
    assert [word in what for word, what in zip(("empty", "gzip", "cannot read", "cut"), told, strict=True)] == [
        True
    ] * 4
