"""Exports and predictions that are killed midway leave what was there, whole."""

from __future__ import annotations

import errno
import os
import pathlib
import signal
import subprocess
import sys

import pytest

from yt8m.errors import RunError
from yt8m.export.saved_model import replaced_folder
from yt8m.storage import unfinished

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Writes a version of two files; killed by itself at the moment that is named.
VERSION = """
import os, pathlib, signal, sys
from yt8m.export.saved_model import replaced_folder

def die(*unused):
    os.kill(os.getpid(), signal.SIGKILL)

folder, moment = sys.argv[1:]
rename = os.rename
if moment == "between the renames":
    os.rename = lambda source, target: rename(source, target) if source == folder else die()
with replaced_folder(folder) as part:
    pathlib.Path(part, "variables").write_text("new")
    if moment == "midway":
        die()
    pathlib.Path(part, "saved_model.pb").write_text("new")
"""


def write(folder: pathlib.Path, moment: str) -> int:
    return subprocess.run([sys.executable, "-c", VERSION, str(folder), moment], cwd=ROOT).returncode


def content(folder: pathlib.Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


OLD, NEW = (dict.fromkeys(("variables", "saved_model.pb"), text) for text in ("old", "new"))


@pytest.mark.promise("C8")
@pytest.mark.parametrize("moment", [pytest.param("midway", marks=pytest.mark.heavy), "between the renames"])
def test_an_export_that_is_killed_leaves_the_old_version(tmp_path: pathlib.Path, moment: str) -> None:
    folder = tmp_path / "export"
    folder.mkdir()
    for name, text in OLD.items():
        (folder / name).write_text(text)
    assert write(folder, moment) == -signal.SIGKILL
    if moment == "midway":
        assert content(folder) == OLD
    # Whatever was left, the next export that fails leaves the old version, and one that ends the new.
    with pytest.raises(ValueError, match="no weights"), replaced_folder(str(folder)):
        raise ValueError("no weights")
    assert content(folder) == OLD
    assert write(folder, "never") == 0
    assert content(folder) == NEW
    assert [path.name for path in tmp_path.iterdir()] == ["export"]


@pytest.mark.heavy
def test_folders_of_similar_names_stay(tmp_path: pathlib.Path) -> None:
    """A user renames a model to `export.old` and exports again: neither a failure nor a success touches that folder."""
    folder = tmp_path / "export"
    others = [tmp_path / name for name in ("export.old", ".export.old", "export.tmp")]
    for other in others:
        other.mkdir()
        (other / "saved_model.pb").write_text(other.name)
    with pytest.raises(ValueError, match="no weights"), replaced_folder(str(folder)):
        raise ValueError("no weights")
    assert not folder.exists()
    assert write(folder, "never") == write(folder, "never") == 0
    assert content(folder) == NEW
    assert [content(other) for other in others] == [{"saved_model.pb": other.name} for other in others]
    assert sorted(tmp_path.iterdir()) == sorted([folder, *others])


def test_the_old_version_that_another_process_is_replacing_stays(tmp_path: pathlib.Path) -> None:
    """Its old folder has a hidden name for an instant, and a lock by which others see that the process is running."""
    folder = tmp_path / "export"
    folder.mkdir()
    (folder / "saved_model.pb").write_text("old")
    assert write(folder, "between the renames") == -signal.SIGKILL
    former = pathlib.Path(unfinished.former_path(str(folder)))
    assert content(former) == {"saved_model.pb": "old"}
    with unfinished.locked_folder(str(former)):
        unfinished.put_back_or_discard(str(former), str(folder))
        assert not folder.exists()
    unfinished.put_back_or_discard(str(former), str(folder))
    assert content(folder) == {"saved_model.pb": "old"}
    assert not former.exists()


def test_an_old_version_comes_back_if_the_new_one_cannot_take_its_name(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, rename = tmp_path / "export", os.rename
    folder.mkdir()
    (folder / "saved_model.pb").write_text("old")

    def refuse_the_new_one(source: str, target: str) -> None:
        if source.endswith(".tmp"):
            raise PermissionError(errno.EACCES, "Permission denied")
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuse_the_new_one)
    with pytest.raises(RunError, match=r"cannot write .*/export: Permission denied"), replaced_folder(str(folder)):
        pass
    assert content(folder) == {"saved_model.pb": "old"}
    assert list(tmp_path.iterdir()) == [folder]
