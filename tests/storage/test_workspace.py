"""Folders of one process: private while it lives, gone afterwards."""

from __future__ import annotations

import os
import pathlib
import signal
import stat
import subprocess
import sys
import tempfile

import pytest

from yt8m.storage import copies

LIVES = """
import os, sys
from yt8m.storage import copies

with copies.private_folder("mine-") as folder:
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.mark.promise("X5")
def test_private_folders_of_killed_processes_go_and_those_of_living_ones_stay(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "mine-of-nobody").mkdir()  # made by hand: it holds no lock
    command, environment = [sys.executable, "-c", LIVES], {**os.environ, "TMPDIR": str(tmp_path)}
    processes = [
        subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    killed, living = processes
    try:
        left, kept = (process.stdout.readline().strip() for process in processes)
        assert stat.S_IMODE(os.stat(left).st_mode) == 0o700
        killed.kill()
        killed.wait()
        assert os.path.isdir(left)
        with copies.private_folder("other-"):
            assert os.path.isdir(left)  # not this one's business
        with copies.private_folder("mine-") as folder:
            assert not os.path.exists(left)
            assert sorted(os.listdir(tmp_path)) == sorted(map(os.path.basename, ["mine-of-nobody", kept, folder]))
    finally:
        for process in processes:
            process.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert living.returncode == 0
    assert os.listdir(tmp_path) == ["mine-of-nobody"]
