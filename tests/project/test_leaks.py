"""`leaks.State` reports what a test leaves behind; a fixture applies it to every test."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator

import leaks
import pytest

from yt8m.lazy import tf
from yt8m.storage import copies

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def before(monkeypatch: pytest.MonkeyPatch) -> leaks.State:
    """The state at the start of a test. `left_since` does not wait for things that are about to end."""
    monkeypatch.setattr(leaks, "_PATIENCE", 0.0)
    return leaks.State()


@pytest.fixture
def restored(before: leaks.State) -> Iterator[None]:
    """Restores the working folder and the signal handler that a test of this file changes."""
    folder = os.getcwd()
    yield
    os.chdir(folder)
    signal.signal(signal.SIGUSR1, signal.SIG_DFL)


pytestmark = pytest.mark.usefixtures("restored")


def test_nothing_is_reported_if_nothing_is_left(before: leaks.State) -> None:
    assert before.left_since() == []


def test_a_thread_is_reported(before: leaks.State) -> None:
    over = threading.Event()
    thread = threading.Thread(target=over.wait, name="lingers")
    thread.start()
    assert before.left_since() == ["thread lingers"]
    over.set()
    thread.join()


def test_a_process_that_runs_or_was_not_waited_for_is_reported(before: leaks.State) -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as process:
        process.stdin.write(b"x")
        assert process.stdout.read(1) == b"x"  # before, Linux may not know its command line yet
        assert before.left_since() == [f"process {process.pid} cat"]
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert before.left_since() == [f"process {process.pid}"]


@pytest.mark.parametrize("ends", [False, True])
def test_a_process_that_a_thread_started_is_reported(before: leaks.State, ends: bool) -> None:
    """Linux has a list of children for each thread."""
    started: list[subprocess.Popen[bytes]] = []
    begun, over = threading.Event(), threading.Event()

    def start() -> None:
        process = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        process.stdin.write(b"x")
        process.stdout.read(1)
        started.append(process)
        begun.set()
        assert ends or over.wait(60)

    thread = threading.Thread(target=start, name="starts")
    thread.start()
    assert begun.wait(60)
    if ends:
        thread.join()
        while os.path.exists(f"/proc/self/task/{thread.native_id}"):  # Linux ends it after Python
            time.sleep(0.01)
    left = before.left_since()
    over.set()
    thread.join()
    with started[0] as process:
        process.kill()
    assert left == [*([] if ends else ["thread starts"]), f"process {process.pid} cat"]


def test_a_signal_handler_is_reported(before: leaks.State) -> None:
    signal.signal(signal.SIGUSR1, lambda *_: None)
    (said,) = before.left_since()
    assert said.startswith("signal handler SIGUSR1: 0 -> ")


def test_a_wake_up_descriptor_is_reported(before: leaks.State) -> None:
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    assert before.left_since() == [f"signal handler wakeup: -1 -> {writer}"]
    signal.set_wakeup_fd(-1)
    os.close(reader)
    os.close(writer)


def test_a_variable_of_the_environment_is_reported(before: leaks.State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEFT", "1")
    assert before.left_since() == ["environment variable LEFT: None -> 1"]


def test_a_temporary_file_is_reported(before: leaks.State) -> None:
    with tempfile.NamedTemporaryFile() as file:
        assert before.left_since() == [f"temporary file {os.path.basename(file.name)}"]


@pytest.mark.heavy
def test_what_stays_in_a_folder_of_the_process_is_reported_and_the_folder_is_not(before: leaks.State) -> None:
    folder = copies.process_folder("yt8m-classifier-")
    with tempfile.TemporaryDirectory(dir=folder) as left:
        assert before.left_since() == [f"temporary file {os.path.relpath(left, tempfile.gettempdir())}"]
    assert before.left_since() == []


def test_another_working_folder_is_reported(before: leaks.State, tmp_path: pathlib.Path) -> None:
    os.chdir(tmp_path)
    assert before.left_since() == [f"the working folder {tmp_path}"]


@pytest.mark.heavy
def test_an_open_session_is_reported(before: leaks.State) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        assert before.left_since() == [f"open session {session}"]


FIRST = """
import leaks
before = leaks.State()
from yt8m.lazy import tf
with tf.Graph().as_default():
    session = tf.Session()
(said,) = before.left_since()
assert said.startswith("open session"), said
session.close()
assert not before.left_since()
"""


@pytest.mark.heavy
def test_a_session_is_reported_of_the_test_that_first_imports_tensorflow() -> None:
    paths = os.pathsep.join(map(str, (ROOT, ROOT / "tests", ROOT / "tests/support")))
    subprocess.run([sys.executable, "-c", FIRST], env={**os.environ, "PYTHONPATH": paths}, check=True)
