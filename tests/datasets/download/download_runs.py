"""Runs `yt8m download` for four files of a server on this machine."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator

import numpy as np
import pytest
from datasets.download import shard_server
from datasets.download.shard_server import ShardServer

from yt8m.command_line import cli

NAMES = ("trainaa", "trainab", "trainbF", "trainpj")
SAVED = dict(zip(NAMES, ("train0000", "train0001", "train0093", "train0939"), strict=True))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ShardServer]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")  # a proxy that this machine may use cannot reach the server
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    draw = np.random.default_rng(0)
    files = {f"{name}.tfrecord": draw.bytes(20_000 + 7 * i) for i, name in enumerate(NAMES)}
    with shard_server.serving(files) as shards:
        yield shards


def run(server: ShardServer, dest: pathlib.Path, *more: str) -> int:
    urls = [f"--plan_url={server.url}", f"--mirror_url={server.url}"]
    given = {word.partition("=")[0] for word in more}
    patience = ["--backoff_seconds=0.01", "--stall_seconds=60", "--retries=4", "--jobs=4"]
    kept = [word for word in patience if word.partition("=")[0] not in given]
    return cli.main(["download", "--partition=2/frame/train", f"--dest={dest}", *urls, *kept, *more])


def assert_all_there(server: ShardServer, dest: pathlib.Path) -> None:
    assert sorted(os.listdir(dest)) == sorted(f"{name}.tfrecord" for name in SAVED.values())
    for name, saved in SAVED.items():
        assert (dest / f"{saved}.tfrecord").read_bytes() == server.files[f"{name}.tfrecord"]
