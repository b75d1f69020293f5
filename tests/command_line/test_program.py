"""Each line stands in the log once; Python code that shows the log leaves it as it was."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pathlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from absl import logging as absl_logging

from yt8m.command_line import cli, program
from yt8m.records import manifest
from yt8m.termination import deferred_interrupts

ROOT = pathlib.Path(__file__).resolve().parents[2]

_PROGRAM = """
from absl import logging
from yt8m.command_line import program
from yt8m.termination import deferred_interrupts
from yt8m.lazy import tf
program.set_up_log()
logging.info("from absl before")
tf.logging.warning("from TensorFlow")
program.set_up_log()
logging.info("from absl after")
tf.logging.warning("from TensorFlow again")
"""


@pytest.mark.heavy
def test_lines_of_absl_and_tensorflow_appear_once_in_one_format():
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, env=environment)
    lines = [line for line in done.stderr.splitlines() if line.startswith("20")]
    assert [line.split(" ", 2)[2] for line in lines] == [
        "INFO from absl before",
        "WARNING from TensorFlow",
        "INFO from absl after",
        "WARNING from TensorFlow again",
    ]


@contextlib.contextmanager
def no_handlers() -> Iterator[logging.Logger]:
    """Takes pytest's handlers away, which count as a log that the process has set up."""
    root = logging.getLogger()
    kept, root.handlers[:] = root.handlers[:], []
    level = absl_logging.get_verbosity()
    absl_logging.set_verbosity(absl_logging.WARNING)
    try:
        yield root
    finally:
        root.handlers[:] = kept
        absl_logging.set_verbosity(level)


def test_a_log_that_is_shown_for_a_while_ends_with_the_last_thread_in_it(capfd: pytest.CaptureFixture[str]) -> None:
    with no_handlers() as root:
        level = absl_logging.get_verbosity()
        inside, leave = threading.Event(), threading.Event()

        def stay() -> None:
            with program.shown_log():
                inside.set()
                leave.wait()

        thread = threading.Thread(target=stay)
        with program.shown_log():
            thread.start()
            inside.wait()
            absl_logging.info("both")
        absl_logging.info("one")
        leave.set()
        thread.join()
        assert root.handlers == []
        absl_logging.info("none")  # absl gives the root a plain handler now
        with program.shown_log():
            absl_logging.info("again")
        assert [type(handler) for handler in root.handlers] == [logging.StreamHandler]
        assert absl_logging.get_verbosity() == level
    assert [line.split()[-1] for line in capfd.readouterr().err.splitlines()] == ["both", "one", "again"]


@pytest.mark.parametrize("name", ["train", "eval", "inference", "verify"])
def test_the_log_is_set_up_before_the_data_are_opened(
    name: str, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """What absl logs before, it logs by a handler of its own, which stays and doubles each line after it."""
    manifest.write_shard(f"{tmp_path}/a.tfrecord", [])
    (tmp_path / "b.tfrecord").symlink_to("a.tfrecord")
    words = [f"--data={tmp_path}/*.tfrecord", f"--train_dir={tmp_path}/run", "--feature_names=none"]
    words = [f"{tmp_path}/*.tfrecord"] if name == "verify" else words
    with no_handlers() as root:
        cli.main([name, *words])
        handlers = [type(handler) for handler in root.handlers]
    assert handlers == [program._Handler]
    said = [line for line in capfd.readouterr().err.splitlines() if "b.tfrecord is the file" in line]
    assert len(said) == 1
    assert said[0].startswith("20")


def test_a_log_that_the_process_has_set_up_is_left_alone() -> None:
    with no_handlers() as root:
        own = logging.NullHandler()
        root.addHandler(own)
        level = absl_logging.get_verbosity()
        with program.shown_log():
            assert root.handlers == [own]
            assert absl_logging.get_verbosity() == level
        root.removeHandler(own)


def test_ctrl_c_is_held_back_and_not_sent_to_processes_started_meanwhile() -> None:
    steps = []

    def work() -> None:
        with deferred_interrupts():
            child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
            for pid in (os.getpid(), child.pid):
                os.kill(pid, signal.SIGINT)
            child.communicate(b"\n", timeout=60)
            steps.append(child.returncode)

    with pytest.raises(KeyboardInterrupt):
        work()
    assert steps == [0]
    with deferred_interrupts():
        steps.append(1)
    assert steps == [0, 1]


def test_a_word_that_is_not_utf8_is_refused(tmp_path: pathlib.Path) -> None:
    words = [sys.executable, "-m", "yt8m.command_line.cli", "inspect", os.fsdecode(b"d\xe4ta/*.tfrecord")]
    ended = subprocess.run(words, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True)
    told = rb"yt8m: error: d\udce4ta/*.tfrecord is not UTF-8; rename the file or folder, or write the flag in UTF-8"
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, b"", told + b"\n")


def test_a_message_with_an_id_of_a_megabyte_is_cut(tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "t.npz", id=["a\t" * 500_000], labels=["c"], clip=np.zeros((1, 2), np.float32))
    assert cli.main(["make-records", f"--table={tmp_path}/t.npz", f"--out={tmp_path}/out"]) == 1
    said = capfd.readouterr().err
    assert len(said) < 10_000
    assert "--max_bad_rows" in said


def test_names_of_files_that_are_not_utf8_are_printed(tmp_path: pathlib.Path) -> None:
    (tmp_path / os.fsdecode(b"t\xe4g.tfrecord")).write_bytes(b"")
    words = [sys.executable, "-m", "yt8m.command_line.cli", "inspect", "--json", "*.tfrecord"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8:strict"}
    ended = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ended.stderr == ""
    assert os.fsencode(json.loads(ended.stdout)[0]["path"]) == b"t\xe4g.tfrecord"
