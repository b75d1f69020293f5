"""A file of parsed records gives the very values that were written, or says that it is damaged."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yt8m.records.data_format import DataFormat, features_of
from yt8m.records.record_parser import NumpyBatch
from yt8m.records.shard_cache import Block, CachedShard, DamagedCacheError, Ragged, ShardCache, write_cached_shard
from yt8m.records.shards import RATING_LISTS, DamagedError

SIZES, FRAME_BYTES = (3, 2), 3 + 4 * 2  # bytes, and floats


def block(counts: list[int], begun: int) -> Block:
    draw = np.random.default_rng([begun, *counts])
    longest = max(counts)
    features: dict[str, Any] = {
        "rgb": draw.integers(0, 256, (len(counts), longest, 3)).astype(np.uint8),
        "audio": draw.normal(size=(len(counts), longest, 2)).astype(np.float32),
    }
    ids = [f"{begun + row}\\x00" if row % 2 else f"{begun + row}" for row in range(len(counts))]
    ratings = {name: [np.arange(row % 3) / 4 for row in range(len(counts))] for name in RATING_LISTS}
    labels = draw.random((len(counts), 7)) < 0.3
    return Block(NumpyBatch(ids, features, np.array(counts, np.int32), labels), ratings)


BLOCKS = [block([2, 0, 3], 0), block([1], 3)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("cached") / "shard"
    write_cached_shard(str(path), BLOCKS, [DamagedError("a.tfrecord", 4, "it is cut short")])
    return str(path)


def values_of(shard: CachedShard) -> list[tuple[Any, ...]]:
    """All that the file has, record by record."""
    found = []
    for row in range(len(shard)):
        buffers = [np.zeros(shard.num_frames[row] * size, np.uint8) for size in (3, 8)]
        shard.read_values(row, buffers)
        classes = shard.lists["labels"].take(np.array([row])).values.tolist()
        found.append((shard.ids[row], classes, *[buffer.tobytes() for buffer in buffers]))
    return found


def test_it_gives_what_was_written(path: str) -> None:
    expected = []
    for batch, _ in BLOCKS:
        for row, count in enumerate(batch.num_frames):
            features = [values[row, :count].tobytes() for values in batch.features.values()]
            name = batch.ids[row].encode().replace(b"\\x00", b"\0")
            expected.append((name, np.flatnonzero(batch.labels[row]).tolist(), *features))
    shard = CachedShard(path, FRAME_BYTES)
    assert values_of(shard) == expected
    assert shard.damage == (4, "it is cut short")
    assert shard.num_frames.tolist() == [2, 0, 3, 1]
    for name in RATING_LISTS:
        values, splits = shard.lists[name]
        assert splits.tolist() == [0, 0, 1, 3, 3]
        assert values.tolist() == np.array([0, 0, 0.25]).astype(values.dtype).tolist()


@given(st.integers(0, 1 << 20), st.none() | st.integers(0, 7))
def test_any_damage_is_noticed(path: str, at: int, bit: int | None) -> None:
    """One bit changed, or the file cut."""
    whole = pathlib.Path(path).read_bytes()
    at %= len(whole)
    content = whole[:at] if bit is None else whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :]
    damaged = pathlib.Path(f"{path}.damaged")
    damaged.write_bytes(content)
    with pytest.raises(DamagedCacheError, match=r"shard\.damaged: this file of --cache is damaged"):
        values_of(CachedShard(str(damaged), FRAME_BYTES))


def test_a_file_that_became_shorter_is_damaged(path: str, tmp_path: pathlib.Path) -> None:
    copy = tmp_path / "shard"
    copy.write_bytes(pathlib.Path(path).read_bytes())
    shard = CachedShard(str(copy), FRAME_BYTES)
    values_of(shard)
    with copy.open("r+b") as file:
        file.truncate(20)
    with pytest.raises(DamagedCacheError):
        values_of(shard)


def test_another_size_of_frames_is_not_taken(path: str) -> None:
    with pytest.raises(DamagedCacheError):
        CachedShard(path, FRAME_BYTES + 1)


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=1, max_size=6), st.data())
def test_lists_are_taken_in_any_order(lists: list[list[int]], data: Any) -> None:
    rows = data.draw(st.lists(st.integers(0, len(lists) - 1), max_size=9))
    ragged = Ragged.of_counts(
        np.array([value for values in lists for value in values], np.int64), np.array(list(map(len, lists)))
    )
    values, splits = ragged.take(np.array(rows, np.int64))
    assert [piece.tolist() for piece in np.split(values, splits[1:-1])][: len(rows)] == [lists[row] for row in rows]


@pytest.mark.parametrize("name", ["train0000.tfrecord", "\u00e9" * 120, "\u3042" * 80, "a" + "\U0001f408" * 60])
def test_the_name_of_a_file_fits_however_long_that_of_its_shard_is(name: str, tmp_path: pathlib.Path) -> None:
    shard = tmp_path / name
    shard.write_bytes(b"")
    cache = ShardCache(str(tmp_path / "cache"), DataFormat("video", features_of("video", ["rgb"], [3]), False, 7))
    of_cache = pathlib.Path(cache.path_of(str(shard))).name
    assert of_cache.startswith(name[:25])
    assert len(of_cache.encode()) <= 140
