"""The cost of a save: real checkpoints, of whose time the waiting for the disk is a part."""

from __future__ import annotations

import os
import pathlib
import time

import pytest

from benchmarks.saving import time_saves


@pytest.mark.heavy
def test_each_save_is_timed_and_its_waiting_noted(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: time.sleep(0.02))
    sync = os.fsync
    measured = time_saves(1, tmp_path, repeats=2)
    assert os.fsync is sync
    assert len(measured.samples) == 2
    (note,) = measured.notes
    assert 0 < float(note.split()[0]) < max(sample.seconds for sample in measured.samples)
    assert (tmp_path / "model.ckpt-2.index").exists()
    assert not (tmp_path / "model.ckpt-1.index").exists()
    assert (tmp_path / "model.ckpt-2.data-00000-of-00001").stat().st_size > 1_000_000 - 1
