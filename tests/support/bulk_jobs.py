"""Real jobs of `yt8m bulk` with worker processes of Beam's DirectRunner, and the search for these processes."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKER = b"yt8m.bulk.worker_process"


def begin(name: str, *words: str) -> subprocess.Popen[str]:
    """Starts `yt8m bulk NAME`."""
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'tests/support'}"}
    command, pipe = [sys.executable, "-m", "yt8m", "bulk", name, *words], subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)


def start(name: str, run: str, pattern: str, output: pathlib.Path | str, *more: str) -> subprocess.Popen[str]:
    """Starts `yt8m bulk NAME` with a model, input shards and an output."""
    return begin(name, f"--model={run}", f"--input={pattern}", f"--output={output}", *more)


def finish(process: subprocess.Popen[str], status: int = 0) -> str:
    """Waits until a job ends, which must be with this status; returns its standard error."""
    errors = process.communicate(timeout=600)[1]
    assert process.returncode == status, errors
    return errors


def is_worker(pid: int) -> bool:
    """Whether a process is a running worker of Beam, rather than the shell that started a worker."""
    try:
        status = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return status != "Z" and WORKER in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False


def children_of(pid: int) -> list[int]:
    """The ids of all processes that descend from a process."""
    try:
        tasks = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
        found = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    except OSError:
        return []
    return found + [below for child in found for below in children_of(child)]


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """Waits until a job has a worker process; returns the ids of its worker processes."""
    while process.poll() is None:
        if found := [pid for pid in children_of(process.pid) if is_worker(pid)]:
            return found
        time.sleep(0.1)
    raise AssertionError(f"the job ended: {process.communicate()[1]}")
