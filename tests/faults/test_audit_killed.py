"""An audit that is killed in each of its phases, one after another, and goes on each time."""

from __future__ import annotations

import pathlib
import signal
import subprocess
import sys

import pytest
from labels.own_labels import make_records, write_table

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = ("issues.csv", "decisions.csv", "copies.csv", "classes.csv", "summary.json", "audit.html")
# The program, killed when a function is called for the n-th time; the function is named by its module and name.
DIES = """
import importlib, os, signal, sys
from yt8m.command_line import cli
module, name, calls, *words = sys.argv[1:]
*owners, name = name.split(".")
owner = importlib.import_module(module)
for each in owners:
    owner = getattr(owner, each)
function, left = getattr(owner, name), int(calls)

def dies(*arguments, **named):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)
    return function(*arguments, **named)

setattr(owner, name, dies)
sys.exit(cli.main(words))
"""
# In the order of the phases: what is done before the call is on the disk when the audit goes on.
PHASES = (
    ("yt8m.labels.folds", "_Writers.add", 100),
    ("yt8m.labels.folds", "write_videos", 1),
    ("yt8m.labels.video_copies", "find_copies", 1),
    ("yt8m.labels.video_copies", "write_pairs", 1),
    ("yt8m.labels.folds", "score_videos", 1),  # the model of the first fold is trained, but has scored nothing
    ("yt8m.labels.label_audit", "write_scores", 2),  # of the second fold, after that of the first
    ("yt8m.runner.saver", "RunSaver.save", 1),  # while the model of the second fold is saved
    ("yt8m.storage", "remove_tree", 1),  # the second fold is scored, but its model is still there
    ("yt8m.labels.video_copies", "measure_effect", 1),
    ("yt8m.labels.findings", "write_decisions", 1),
    ("yt8m.labels.label_audit", "write_page", 1),
)


@pytest.mark.heavy
def test_an_audit_that_is_killed_in_each_phase_writes_the_same_bytes(tmp_path: pathlib.Path) -> None:
    write_table(tmp_path)
    words = ["audit", f"--data={make_records(tmp_path)}", "--folds=2", "--num_epochs=2"]
    whole, killed = ([*words, f"--out={tmp_path}/{name}"] for name in ("whole", "killed"))
    assert subprocess.run([sys.executable, "-m", "yt8m", *whole], cwd=ROOT).returncode == 0
    for module, name, calls in PHASES:
        program = [sys.executable, "-c", DIES, module, name, str(calls), *killed]
        assert subprocess.run(program, cwd=ROOT).returncode == -signal.SIGKILL, name
    assert subprocess.run([sys.executable, "-m", "yt8m", *killed], cwd=ROOT).returncode == 0
    for file in FILES:
        assert (tmp_path / "killed" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes(), file
    left = [sorted(path.name for path in (tmp_path / name / ".work").iterdir()) for name in ("killed", "whole")]
    assert left[0] == left[1]
