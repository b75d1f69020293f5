"""Without `flock` programs work; a lock file keeps others away, unless its holder is dead."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import pytest
from faults.power_cuts import SOURCE

from yt8m import storage
from yt8m.errors import RunError

HOLD = """
import sys, time
from yt8m import storage
from yt8m.errors import RunError
with storage.lock(sys.argv[1]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Compiles the library that takes `flock` away."""
    library = tmp_path_factory.mktemp("no_locks") / "no_locks.so"
    if not (compiler := shutil.which("gcc")):
        pytest.skip("there is no gcc")
    source = SOURCE.with_name("no_locks.c")
    if subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=False).returncode:
        pytest.skip("gcc cannot compile a library")
    return os.environ | {"LD_PRELOAD": str(library)}


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> NoReturn:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", refuse)


def write_holder(path: pathlib.Path, pid: int, host: str) -> None:
    path.write_text(json.dumps({"pid": pid, "host": host, "since": "2026-01-01"}))


def dead_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.promise("C6")
def test_a_command_that_writes_works_and_warns_once(tmp_path: pathlib.Path, environment: dict[str, str]) -> None:
    np.save(tmp_path / "a.npy", np.zeros((4, 2), np.float32))
    (tmp_path / "t.csv").write_text("id,labels\nv0,a\nv1,b\nv2,a\nv3,b\n")
    words = [f"--table={tmp_path}/t.csv", f"--array={tmp_path}/a.npy", f"--out={tmp_path}/out"]
    for said in ("classes", "nothing was written"):
        done = subprocess.run(
            [sys.executable, "-m", "yt8m", "make-records", *words], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert said in done.stdout + done.stderr
        assert done.stderr.count("has no locks (flock)") == 1
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["video", "vocabulary.csv"]


@pytest.mark.promise("C6")
def test_a_second_process_is_refused_until_the_first_is_dead(
    tmp_path: pathlib.Path, environment: dict[str, str], no_locks: None
) -> None:
    lock = tmp_path / "train.lock"
    words: Sequence[str] = [sys.executable, "-c", HOLD, str(lock)]
    holder = subprocess.Popen(words, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        assert storage.is_locked(lock)
        with pytest.raises(storage.Locked, match=rf"process {holder.pid} .*remove {lock}"), storage.lock(lock):
            pass
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        assert lock.exists()
        assert not storage.is_locked(lock)
        with storage.lock(lock):
            assert storage.is_locked(lock)
        assert list(tmp_path.iterdir()) == []
    finally:
        holder.kill()
        holder.communicate()


@pytest.mark.parametrize(
    ("pid", "host", "age", "is_held"),
    [
        ("dead", socket.gethostname(), 0, False),
        ("dead", "another machine", 0, True),
        ("alive", socket.gethostname(), 0, True),
        (None, "", 0, True),
        (None, "", 60, False),
    ],
)
def test_whose_lock_is_taken_over(
    tmp_path: pathlib.Path, no_locks: None, pid: str | None, host: str, age: float, is_held: bool
) -> None:
    """A file without a holder is being written, unless it is old."""
    lock = tmp_path / "lock"
    lock.touch()
    if pid is not None:
        write_holder(lock, dead_process() if pid == "dead" else os.getppid(), host)
    status = lock.stat()
    os.utime(lock, (status.st_atime - age, status.st_mtime - age))
    assert storage.is_locked(lock) == is_held
    if is_held:
        with pytest.raises(storage.Locked), storage.lock(lock):
            pass
        assert lock.exists()
    else:
        with storage.lock(lock):
            assert json.loads(lock.read_text())["pid"] == os.getpid()
        assert not lock.exists()


def test_another_error_is_no_missing_lock(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> NoReturn:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(RunError, match="cannot lock"), storage.lock(tmp_path / "lock"):
        pass
