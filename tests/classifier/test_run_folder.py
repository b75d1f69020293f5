"""The temporary folders of classifiers, which go with the process that made them, however it was made or ended."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
from typing import Any

import pytest
from golden_data import golden
from small_run import ROOT

_FIT = """
import multiprocessing, os, pathlib, sys
import numpy as np
import yt8m
before, how, is_killed = sys.argv[1:]
def fit():
    classifier = yt8m.Classifier(model="LogisticModel", options={"max_steps": 1})
    return classifier.fit(np.eye(8, dtype=np.float32), [["a"], ["b"]] * 4)
def child():
    try:
        fitted = fit()
        print("fitted", flush=True)
        kept.append(fitted)  # it lives as long as the process
    except Exception as error:
        print("refused" if "before the fork" in str(error) else error, flush=True)
kept = []
if before == "fitted":
    kept.append(fit())
if how == "here":
    child()
else:
    process = multiprocessing.get_context(how).Process(target=child)
    process.start()
    process.join()
print(len(list(pathlib.Path(os.environ["TMPDIR"]).glob("yt8m-classifier-*"))), flush=True)
if is_killed == "killed":
    os.kill(os.getpid(), 9)
"""


def run(folder: pathlib.Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment: Any = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-c", _FIT, *words], capture_output=True, text=True, env=environment)


@pytest.mark.heavy
@pytest.mark.long
@pytest.mark.parametrize(("before", "told"), [("new", ["fitted", "0"]), ("fitted", ["refused", "1"])])
def test_a_forked_child_leaves_no_folder(tmp_path: pathlib.Path, before: str, told: list[str]) -> None:
    """Such a child ends without the functions that `atexit` has."""
    done = run(tmp_path, before, "fork", "ends")
    assert done.stdout.splitlines() == told, done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.heavy
@pytest.mark.long
def test_the_folder_of_a_killed_process_goes_with_the_next_one(tmp_path: pathlib.Path) -> None:
    assert run(tmp_path, "new", "here", "killed").returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    done = run(tmp_path, "new", "here", "ends")
    assert done.stdout.splitlines() == ["fitted", "1"], done.stderr
    assert not left.exists()
    assert list(tmp_path.iterdir()) == []


_SAVE = """
import os, pathlib, signal, sys
from yt8m.classifier.run_folder import RunFolder
target, kill_at, config, weights = sys.argv[1:]
folder = RunFolder()
os.mkdir(folder.path)
for name in "abc":
    pathlib.Path(folder.path, name).write_text(name)
pathlib.Path(folder.path, "model.ckpt-1.data-00000-of-00001").write_text(weights)
pathlib.Path(folder.path, "config.json").write_bytes(pathlib.Path(config).read_bytes())
events = []
def kill(event, words):
    is_whole = event == "os.remove" and os.path.exists(target)
    events.append("whole" if is_whole else event)
    if events[-1] == kill_at and events.count(kill_at) == 2 - is_whole:
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(kill)
folder.copy_to(target)
"""


def save(folder: pathlib.Path, kill_at: str, weights: str = "learned") -> subprocess.CompletedProcess[str]:
    """Saves a run as `saved/mine` in a process that is killed at its second event of this name, or when it is whole."""
    (folder / "system").mkdir(exist_ok=True)
    (folder / "saved").mkdir(exist_ok=True)
    environment: Any = {**os.environ, "TMPDIR": str(folder / "system"), "PYTHONPATH": str(ROOT)}
    config = str(golden("run_format_1") / "config.json")
    words = [sys.executable, "-c", _SAVE, str(folder / "saved/mine"), kill_at, config, weights]
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False)


_SAVED = ["a", "b", "c", "config.json", "model.ckpt-1.data-00000-of-00001", "model_flags.json"]


def test_a_killed_save_leaves_nothing_once_it_is_repeated(tmp_path: pathlib.Path) -> None:
    assert save(tmp_path, "shutil.copyfile").returncode == -signal.SIGKILL
    assert not (tmp_path / "saved/mine").exists()
    assert save(tmp_path, "").returncode == 0
    assert os.listdir(tmp_path / "saved") == ["mine"]
    assert sorted(os.listdir(tmp_path / "saved/mine")) == _SAVED


def test_a_save_that_was_killed_when_it_was_whole_succeeds_if_the_same_is_saved(tmp_path: pathlib.Path) -> None:
    assert save(tmp_path, "whole").returncode == -signal.SIGKILL
    assert sorted(os.listdir(tmp_path / "saved/mine")) == _SAVED
    refused = save(tmp_path, "", weights="learned something else")
    assert (refused.returncode, "mine exists already" in refused.stderr) == (1, True)
    assert save(tmp_path, "").returncode == 0
    assert os.listdir(tmp_path / "saved") == ["mine"]
