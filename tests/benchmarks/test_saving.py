"""The cost of a save: real checkpoints, of whose time the waiting for the disk is a part."""

from __future__ import annotations

import os
import pathlib

from benchmarks.saving import time_saves


def test_each_save_is_timed_with_its_waiting(tmp_path: pathlib.Path) -> None:
    sync = os.fsync
    times = time_saves(1, tmp_path, saves=2)
    assert os.fsync is sync
    assert len(times) == 2
    assert all(0 < save.waiting < save.whole for save in times)
    assert (tmp_path / "model.ckpt-2.index").exists()
    assert not (tmp_path / "model.ckpt-1.index").exists()
    assert (tmp_path / "model.ckpt-2.data-00000-of-00001").stat().st_size > 1_000_000 - 1
