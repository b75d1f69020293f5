"""`yt8m download` as a process: it is stopped by a signal, runs out of disk space, shows a bar on a terminal."""

from __future__ import annotations

import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import cases
import pytest
from datasets.download.download_runs import run
from datasets.download.shard_server import ShardServer, stall
from terminal import on_a_terminal

from yt8m import storage

ROOT = pathlib.Path(__file__).resolve().parents[3]


def program(server: ShardServer, dest: pathlib.Path, *before: str) -> list[str]:
    words = [f"--plan_url={server.url}", f"--mirror_url={server.url}", f"--dest={dest}", "--shard=1,100"]
    return [*before, sys.executable, "-m", "yt8m", "download", "--partition=2/frame/train", *words]


@pytest.mark.parametrize(
    ("number", "said"), cases.all_of([(signal.SIGINT, "Ctrl-C")], heavy=[(signal.SIGTERM, "SIGTERM")])
)
def test_after_a_signal_the_next_start_continues(server, tmp_path, number, said):
    server.faults["trainbF.tfrecord"] = [stall(5000)]
    process = subprocess.Popen(program(server, tmp_path), stderr=subprocess.PIPE, text=True, cwd=ROOT)
    while not any(path.stat().st_size == 5000 for path in tmp_path.glob(".train0093*.part")):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(number)
    assert process.communicate()[1] == f"yt8m download: stopped by {said}\n"
    server.release.set()
    assert process.returncode == 128 + number
    server.gets.clear()
    assert run(server, tmp_path, "--shard=1,100") == 0
    assert server.gets == [("trainbF.tfrecord", 5000)]
    assert os.listdir(tmp_path) == ["train0093.tfrecord"]


def test_a_full_disk_is_named(server, tmp_path):
    limited = program(server, tmp_path, "bash", "-c", 'ulimit -f 8; exec "$@"', "bash")
    done = subprocess.run(limited, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 1
    assert "failed: train0093.tfrecord: cannot write" in done.stderr
    assert "File too large" in done.stderr
    assert not storage.glob(f"{tmp_path}/*")


def test_a_bar_on_a_terminal(server, tmp_path):
    shown = on_a_terminal(program(server, tmp_path))
    assert re.search(r"1 of 1 files .* 20.0/20.0 kB", shown)
    assert "train0093.tfrecord (" not in shown  # the bar stands for the lines
