"""Shards of a bucket in a bounded local cache, against the real store."""

from __future__ import annotations

import errno
import os
import pathlib
import threading

import pytest

from yt8m import storage
from yt8m.errors import RunError
from yt8m.storage import base, staging

SIZE = 100_000


def put(path: str, content: bytes) -> str:
    with storage.write_atomic(path) as file:
        file.write(content)
    return path


@pytest.fixture
def shards(bucket: str) -> list[str]:
    return [put(f"{bucket}/train/{n}.tfrecord", bytes([n]) * SIZE) for n in range(6)]


@pytest.fixture
def cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The folder of the cache; it has room for three shards and a half."""
    given = base.BucketSettings(cache_dir=str(tmp_path / "cache"), stage_cache_bytes=350_000)
    monkeypatch.setattr(base, "_settings", given)
    return tmp_path / "cache/shards"


def held(cache: pathlib.Path) -> dict[str, int]:
    return {path.name.partition("@")[0]: path.stat().st_size for path in cache.rglob("*") if path.is_file()}


def test_the_cache_stays_within_its_bounds_and_the_oldest_go(shards: list[str], cache: pathlib.Path) -> None:
    stage = staging.Stage(in_use=1)
    for n, path in enumerate([*shards, *shards]):
        with open(stage.take(path), "rb") as file:
            assert file.read() == bytes([n % 6]) * SIZE
        assert sum(held(cache).values()) <= 350_000
    assert set(held(cache)) == {"3.tfrecord", "4.tfrecord", "5.tfrecord"}
    os.utime(next(cache.rglob("3.tfrecord@*")), (2e9, 1e9))  # used last of all
    another = staging.Stage(in_use=1)
    another.take(shards[0])
    another.take(shards[1])
    assert "3.tfrecord" in held(cache)


def test_what_is_announced_comes_ahead_and_is_fetched_once(shards: list[str], cache: pathlib.Path) -> None:
    stage = staging.Stage(in_use=1)
    for path in shards:
        stage.announce(path)
    for n, path in enumerate(shards):
        assert pathlib.Path(stage.take(path)).read_bytes() == bytes([n]) * SIZE
        assert sum(held(cache).values()) <= 350_000


def test_a_file_that_is_read_outlives_its_eviction(shards: list[str], cache: pathlib.Path) -> None:
    stage = staging.Stage(in_use=2)
    first = stage.take(shards[0])
    for path in cache.rglob("0.tfrecord@*"):
        path.unlink()  # as another process would
    assert pathlib.Path(first).read_bytes() == bytes(SIZE)
    assert pathlib.Path(stage.take(shards[0])).read_bytes() == bytes(SIZE)


def test_a_file_system_without_hard_links_gets_copies(
    shards: list[str], cache: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def link(source: str, target: str) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), source, None, target)

    monkeypatch.setattr(os, "link", link)
    stage = staging.Stage(in_use=1)
    for n, path in enumerate(shards):
        assert pathlib.Path(stage.take(path)).read_bytes() == bytes([n]) * SIZE


def test_another_version_is_fetched_anew(shards: list[str], cache: pathlib.Path) -> None:
    stage = staging.Stage(in_use=1)
    stage.take(shards[0])
    put(shards[0], b"new")
    assert pathlib.Path(stage.take(shards[0])).read_bytes() == b"new"


def test_a_cache_that_is_too_small_is_named(bucket: str, cache: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(f"{bucket}/large", bytes(400_000))
    stage = staging.Stage(in_use=1)
    with pytest.raises(RunError, match=r"--stage_cache_bytes=350000 has no room .* at least 400000"):
        stage.take(path)
    assert "--stage_cache_bytes" in str(stage.failure)


def test_a_missing_shard_is_named_and_a_local_one_is_its_own_copy(
    bucket: str, cache: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    stage = staging.Stage(in_use=1)
    with pytest.raises(storage.NotFoundError, match=f"{bucket}/gone"):
        stage.take(f"{bucket}/gone")
    assert stage.take(f"{tmp_path}/x") == f"{tmp_path}/x"


def test_a_shard_is_fetched_later_if_no_thread_could_be_started(
    shards: list[str], cache: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    stage = staging.Stage(in_use=1)
    with monkeypatch.context() as without_threads:
        without_threads.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            stage.announce(shards[2])
    assert pathlib.Path(stage.take(shards[2])).read_bytes() == b"\2" * SIZE
    assert set(held(cache)) == {"2.tfrecord"}
