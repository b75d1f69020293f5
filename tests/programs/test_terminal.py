"""On a terminal a run shows a bar with its figures, elsewhere lines."""

from __future__ import annotations

import pathlib
import re
import sys

import numpy as np
import pytest
from reader_records import video_record, write_shard
from terminal import on_a_terminal

from yt8m import train


def command(folder: pathlib.Path) -> list[str]:
    draw = np.random.default_rng(0)
    records = [
        video_record(id=[b"%d" % row], labels=[row % 5], mean_rgb=draw.normal(size=4).astype("f4")) for row in range(16)
    ]
    write_shard(folder / "a.tfrecord", records)
    data = ["--feature_names=mean_rgb", "--feature_sizes=4", "--num_classes=5", "--batch_size=8"]
    words = [f"--train_data_pattern={folder}/a.tfrecord", f"--train_dir={folder}/run", "--num_epochs=10"]
    return [sys.executable, "-m", "yt8m.train", *words, *data, "--log_every_n_steps=5"]


@pytest.mark.heavy
@pytest.mark.long
def test_a_bar_on_a_terminal(tmp_path: pathlib.Path) -> None:
    shown = on_a_terminal(command(tmp_path))
    assert re.search(r"training step 20 of 20 .*\d:\d\d:\d\d.* loss [\d.]+  GAP [\d.]+", shown)
    assert "INFO training step" not in shown  # the bar stands for the lines
    assert re.search(r"INFO saved .*model.ckpt-20", shown)  # what else is said stays
    assert len((tmp_path / "run/metrics.jsonl").read_text().splitlines()) == 4


@pytest.mark.heavy
def test_lines_elsewhere(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train.main(command(tmp_path)[3:]) == 0
    shown = capsys.readouterr().err
    steps = re.findall(r"INFO training step (\d+) \| Loss: [\d.]+ .*GAP: .* \| step \d+ of 20 \| 0:00:\d\d left", shown)
    assert steps == ["5", "10", "15", "20"]
    assert "\x1b" not in shown
