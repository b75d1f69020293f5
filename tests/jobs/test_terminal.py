"""On a terminal a run shows a bar with its figures, elsewhere lines."""

from __future__ import annotations

import os
import pathlib
import pty
import re
import subprocess
import sys

import numpy as np
import pytest
from reader_records import video_record, write_shard

ROOT = pathlib.Path(__file__).resolve().parents[2]


def command(folder: pathlib.Path) -> list[str]:
    draw = np.random.default_rng(0)
    records = [
        video_record(id=[b"%d" % row], labels=[row % 5], mean_rgb=draw.normal(size=4).astype("f4"))
        for row in range(16)
    ]
    write_shard(folder / "a.tfrecord", records)
    data = ["--feature_names=mean_rgb", "--feature_sizes=4", "--num_classes=5", "--batch_size=8"]
    words = [f"--train_data_pattern={folder}/a.tfrecord", f"--train_dir={folder}/run", "--num_epochs=100"]
    return [sys.executable, "-m", "yt8m.train", *words, *data, "--max_steps=20", "--log_every_n_steps=5"]


def on_a_terminal(words: list[str]) -> str:
    """What a process writes to a terminal of 160 columns that is its error stream."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "160"}
    process = subprocess.Popen(words, stderr=theirs, stdout=subprocess.DEVNULL, cwd=ROOT, env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux's way to say that the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    assert process.wait() == 0, shown
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())


@pytest.mark.long
def test_a_bar_on_a_terminal(tmp_path: pathlib.Path) -> None:
    shown = on_a_terminal(command(tmp_path))
    assert re.search(
        r"training step 20 of 20 .*examples/s  loss [\d.]+  Hit@1 [\d.]+  PERR [\d.]+  GAP [\d.]+", shown
    )
    assert "training step 5 |" not in shown  # the bar stands for the lines
    assert re.search(r"INFO saved .*model.ckpt-20", shown)  # what else is said stays
    assert len((tmp_path / "run/metrics.jsonl").read_text().splitlines()) == 4


@pytest.mark.long
def test_lines_elsewhere(tmp_path: pathlib.Path) -> None:
    done = subprocess.run(command(tmp_path), capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    steps = re.findall(r"INFO training step (\d+) \| Loss: [\d.]+ .*GAP: ", done.stderr)
    assert steps == ["5", "10", "15", "20"]
    assert "\x1b" not in done.stderr
