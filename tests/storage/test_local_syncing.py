"""What is synced to the disk, and in which order."""

from __future__ import annotations

import os
import pathlib

import pytest

from yt8m import storage
from yt8m.errors import RunError
from yt8m.storage import local


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were synced, in order."""
    paths: list[str] = []
    sync = os.fsync

    def fsync(descriptor: int) -> None:
        paths.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return paths


def test_a_folder_is_synced_with_all_in_it_before_it_gets_its_name(tmp_path: pathlib.Path, synced: list[str]) -> None:
    (tmp_path / "making/train").mkdir(parents=True)
    (tmp_path / "making/train/shard").write_bytes(b"records")
    (tmp_path / "making/link").symlink_to("nowhere")
    os.mkfifo(tmp_path / "making/pipe")
    storage.rename(tmp_path / "making", tmp_path / "made")
    making = tmp_path / "making"
    everything = [making / "pipe", making, making / "train/shard", making / "train"]
    assert sorted(synced[:-1]) == sorted(map(str, everything))
    assert synced[-1] == str(tmp_path)
    assert (tmp_path / "made/train/shard").read_bytes() == b"records"


def test_names_of_new_folders_are_synced(tmp_path: pathlib.Path, synced: list[str]) -> None:
    local.make_folders(str(tmp_path / "a/b/c"))
    assert synced == [str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a/b")]
    local.make_folders(str(tmp_path / "a/b/c"))
    assert len(synced) == 3


def test_files_are_synced_before_their_folders(tmp_path: pathlib.Path, synced: list[str]) -> None:
    for name in ("data", "index"):
        (tmp_path / name).touch()
    storage.sync([tmp_path / "data", tmp_path / "index", "gs://bucket/object"])
    assert synced == [str(tmp_path / "data"), str(tmp_path / "index"), str(tmp_path)]
    with pytest.raises(RunError, match=r"cannot sync .*/nothing: there is no"):
        storage.sync([str(tmp_path / "nothing")])
