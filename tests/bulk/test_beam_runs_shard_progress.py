"""The lines on the progress of a bulk job, without Beam."""

from __future__ import annotations

import pathlib
from types import ModuleType

import pytest

from yt8m import storage, terminal
from yt8m.bulk.bulk_config import Done
from yt8m.errors import RunError


@pytest.fixture(scope="module")
def beam_runs() -> ModuleType:
    """Imported with Beam, which takes two seconds, where these tests run and not wherever tests are collected."""
    pytest.importorskip("apache_beam", reason="Apache Beam is not installed: pip install -e '.[beam]'")
    from yt8m.bulk import beam_runs

    return beam_runs


@pytest.fixture
def lines(beam_runs: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines that are logged; one is always due."""
    found: list[str] = []
    monkeypatch.setattr(beam_runs.logging, "info", lambda text, *values: found.append(text % values))
    monkeypatch.setattr(terminal, "LINE_SECONDS", -1.0)
    return found


def test_a_shard_that_two_workers_finished_counts_once(
    beam_runs: ModuleType, tmp_path: pathlib.Path, lines: list[str]
) -> None:
    shard_progress = beam_runs.ShardProgress(f"{tmp_path}/marks", 4, "records")
    shard_progress.look()
    assert lines == []  # there is no folder yet, and nothing to tell
    for done in (Done(0, 300), Done(3, 100), Done(0, 300)):
        assert beam_runs.leave_mark(done, f"{tmp_path}/marks") == done
    shard_progress.look()
    assert len(lines) == 1
    assert lines[0].startswith("2 of 4 shards, 400 records, ")
    assert lines[0].endswith(" minutes left")


def test_a_line_comes_every_thirty_seconds(
    beam_runs: ModuleType, tmp_path: pathlib.Path, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    monkeypatch.setattr(terminal, "LINE_SECONDS", 30.0)
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    shard_progress = beam_runs.ShardProgress(str(tmp_path), 5, "videos")
    beam_runs.leave_mark(Done(2, 60), str(tmp_path))
    for now[0] in (129.0, 131.0, 140.0):
        shard_progress.look()
    assert lines == ["1 of 5 shards, 60 videos, 1.9 videos/s, 2.1 minutes left"]


def test_a_folder_that_cannot_be_listed_does_not_end_the_job(
    beam_runs: ModuleType, tmp_path: pathlib.Path, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_path: str) -> list[str]:
        raise RunError("no answer")

    monkeypatch.setattr(storage, "names_in", fail)
    beam_runs.ShardProgress(str(tmp_path), 5, "videos").look()
    assert lines == []
