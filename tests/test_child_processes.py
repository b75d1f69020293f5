"""A process that works for another one ends with it."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys
import time

import pytest

# The child names the process for which it works, and then holds the time that it needs in a call that reads nothing.
CHILD = """
import sys, time
from yt8m import child_processes
if sys.argv[2] == "without pidfd":
    del child_processes.os.pidfd_open
child_processes.end_with(int(sys.argv[1]))
print("ready", flush=True)
time.sleep(600)
"""
# A shell stands between the process and its child, as it does for the workers of Beam.
PARENT = """
import os, subprocess, sys, shlex
words = [sys.executable, "-c", sys.argv[1], str(os.getpid()), sys.argv[2]]
child = subprocess.Popen(shlex.join(words) + "; true", shell=True)
child.wait()
"""


def has_ended(process: int) -> bool:
    try:
        return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize("way", ["with pidfd", "without pidfd"])
def test_a_child_ends_with_its_killed_parent(way: str) -> None:
    words = [sys.executable, "-c", PARENT, CHILD, way]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        shell = int(pathlib.Path(f"/proc/{parent.pid}/task/{parent.pid}/children").read_text())
        (child,) = map(int, pathlib.Path(f"/proc/{shell}/task/{shell}/children").read_text().split())
        parent.kill()
        parent.wait()
        deadline = time.monotonic() + 600
        while not has_ended(child):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_a_child_of_an_ended_process_ends_at_once() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    done = subprocess.run([sys.executable, "-c", CHILD, str(ended.pid), "with pidfd"], check=False)
    assert done.returncode == -signal.SIGKILL
