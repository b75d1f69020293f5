"""What killed writers leave is removed by the next process that writes there; what living ones fill stays."""

from __future__ import annotations

import fcntl
import os
import pathlib
import subprocess
import sys
import textwrap

import pytest

from yt8m import storage
from yt8m.storage import unfinished

KILLED = """
import os, sys
from yt8m import storage
from yt8m.storage.local import LocalStore
with (
    storage.write_atomic(sys.argv[1] + "/checkpoint"),
    storage.write_atomic(sys.argv[1] + "/summary.json"),
    LocalStore().replaced_folder(sys.argv[1] + "/export") as folder,
):
    os.mkdir(folder + "/variables")
    os.kill(os.getpid(), 9)
"""
LIVING = """
import sys
from yt8m import storage
with storage.write_atomic(sys.argv[1] + "/living"):
    print("writing", flush=True)
    sys.stdin.read()
"""
WRITES = """
import sys
from yt8m import storage
storage.write(sys.argv[1] + "/first", "")
storage.write(sys.argv[1] + "/second", "")
"""


def run(code: str, folder: pathlib.Path) -> int:
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code), str(folder)], check=False).returncode


@pytest.mark.promise("O4")
def test_the_next_process_that_writes_removes_what_dead_ones_left(tmp_path: pathlib.Path) -> None:
    assert run(KILLED, tmp_path) == -9
    orphans = sorted(path.name.split(".")[1] for path in tmp_path.iterdir())
    assert orphans == ["checkpoint", "export", "summary"]
    (tmp_path / ".user.tmp").touch()
    command = [sys.executable, "-c", LIVING, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as living:
        assert living.stdout.readline() == "writing\n"
        names = [path.name for path in tmp_path.iterdir()]
        assert sorted(name.split(".")[1] for name in names) == ["living", "user"]  # it has swept
        assert run(WRITES, tmp_path) == 0
        assert {path.name for path in tmp_path.iterdir()} == {*names, "first", "second"}
        living.communicate()
    assert sorted(os.listdir(tmp_path)) == [".user.tmp", "first", "living", "second"]


@pytest.mark.promise("O4")
def test_what_another_machine_or_container_fills_stays(tmp_path: pathlib.Path) -> None:
    assert run(KILLED, tmp_path) == -9
    (name,) = [path.name for path in tmp_path.iterdir() if ".export." in path.name]
    token = name.split(".")[3]
    other = tmp_path / name.replace(token, ("0" if token[0] != "0" else "1") + token[1:])
    other.mkdir()
    descriptor = os.open(tmp_path / name, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    unfinished.discard_orphans(str(tmp_path), "export")
    assert {path for path in tmp_path.iterdir() if ".export." in path.name} == {tmp_path / name, other}
    os.close(descriptor)
    unfinished.discard_orphans(str(tmp_path), "export")
    assert [path for path in tmp_path.iterdir() if ".export." in path.name] == [other]


@pytest.mark.parametrize("name", ["é" * 120, "日" * 80, "a" * 250], ids=["é", "日", "a"])
def test_the_longest_names_that_a_file_system_takes_can_be_written(tmp_path: pathlib.Path, name: str) -> None:
    storage.write(str(tmp_path / name), "text")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["text"]
    assert unfinished.unfinished_in(str(tmp_path), name) == []
    held = pathlib.Path(unfinished.temporary_path(str(tmp_path / name)))
    held.touch()
    assert [found.path for found in unfinished.unfinished_in(str(tmp_path), name)] == [str(held)]
