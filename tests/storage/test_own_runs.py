"""The notes on which runs are this user's: private, bounded, and never looked for in a folder of others."""

from __future__ import annotations

import os
import pathlib
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from yt8m.errors import RunError
from yt8m.storage import own_runs

pytestmark = pytest.mark.promise("X4")


@pytest.fixture
def notes(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "yt8m/own-runs"


def test_exactly_what_was_noted_is_known(notes: pathlib.Path) -> None:
    assert not own_runs.is_noted("a")
    own_runs.note("a")
    own_runs.note("a")
    assert (own_runs.is_noted("a"), own_runs.is_noted("a "), own_runs.is_noted("")) == (True, False, False)
    (file,) = notes.iterdir()
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (notes, file)]
    assert (modes, file.stat().st_size) == ([0o700, 0o600], 0)


def test_writers_side_by_side_lose_nothing_and_the_oldest_go(
    notes: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_runs, "MAX_RECORDS", 40)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(own_runs.note, map(str, range(40))))
    assert all(own_runs.is_noted(str(number)) for number in range(40))
    for number, path in enumerate(sorted(notes.iterdir())):
        os.utime(path, (number, number))
    oldest = sorted(path.name for path in notes.iterdir())[:10]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(own_runs.note, map(str, range(40, 50))))
    assert len(list(notes.iterdir())) == 40
    assert not any((notes / name).exists() for name in oldest)
    assert all(own_runs.is_noted(str(number)) for number in range(40, 50))


def test_few_notes_look_at_the_others(notes: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look at ten thousand takes a fifteenth of a second, and a start of a training makes two notes."""
    monkeypatch.setattr(own_runs, "MAX_RECORDS", 100)
    original, looks = os.lstat, []

    def watched(path: str) -> os.stat_result:
        looks.append(path)
        return original(path)

    monkeypatch.setattr(os, "lstat", watched)
    for number in range(100):
        own_runs.note(str(number))
    assert len(looks) == 100  # each note looks at the folder
    for number in range(100, 104):
        own_runs.note(str(number))
    assert len(looks) == 104 + 2 * 101  # two of the four looked at all
    assert len(list(notes.iterdir())) == 98
    assert all(own_runs.is_noted(str(number)) for number in range(99, 104))


def test_a_note_that_another_process_has_just_removed_does_not_keep_the_others(
    notes: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10):
        own_runs.note(str(number))
        (path,) = (one for one in notes.iterdir() if one.stat().st_mtime > 100)
        os.utime(path, (number, number))
    monkeypatch.setattr(own_runs, "MAX_RECORDS", 4)
    original, gone = os.unlink, []

    def late(path: str) -> None:
        if not gone:  # the other process was faster
            original(path)
        gone.append(path)
        original(path)

    monkeypatch.setattr(os, "unlink", late)
    own_runs.note("new")
    assert len(gone) == 7
    assert [number for number in range(10) if own_runs.is_noted(str(number))] == [7, 8, 9]
    assert own_runs.is_noted("new")


def test_what_others_may_write_to_does_not_count(notes: pathlib.Path) -> None:
    own_runs.note("a")
    notes.chmod(0o770)
    assert not own_runs.is_noted("a")
    with pytest.raises(RunError, match=rf"{notes} .*chown .*chmod go-w"):
        own_runs.note("b")
    notes.chmod(0o700)
    assert own_runs.is_noted("a")
    (file,) = notes.iterdir()
    file.chmod(0o666)
    assert not own_runs.is_noted("a")
    file.unlink()
    file.symlink_to(__file__)
    assert not own_runs.is_noted("a")
    with pytest.raises(RunError, match="cannot write to"):
        own_runs.note("a")


def test_what_another_user_owns_does_not_count(notes: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_runs.note("a")
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert not own_runs.is_noted("a")
    with pytest.raises(RunError, match=rf"{notes} .*chown .*chmod go-w"):
        own_runs.note("b")


def test_without_a_home_nothing_is_noted_and_nothing_known(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path is that of the current folder, which may have come with a run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", "home")
    with pytest.raises(RunError, match="no home folder"):
        own_runs.note("a")
    assert not own_runs.is_noted("a")
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    with pytest.raises(RunError, match="cannot write to"):
        own_runs.note("a")
    assert not own_runs.is_noted("a")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    own_runs.note("a")
    assert own_runs.is_noted("a")
    assert (tmp_path / "home/.local/state/yt8m/own-runs").is_dir()
