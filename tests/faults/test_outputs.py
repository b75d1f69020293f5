"""Exports and predictions that are killed midway leave what was there, whole."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys

import pytest

from yt8m.export.saved_model import replaced_folder

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
@pytest.mark.parametrize("moment", ["midway", "between the renames"])
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
