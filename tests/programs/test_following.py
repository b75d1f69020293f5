"""eval.py beside a training run: each new checkpoint once, without spinning."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest
from golden_data import golden

from yt8m import eval as evaluation
from yt8m import train

ROOT = pathlib.Path(__file__).resolve().parents[2]


def train_to(folder: pathlib.Path, step: int) -> None:
    data = golden("checkpoint_logistic/train.tfrecord")
    flags = ["--feature_names=mean_rgb,mean_audio", "--feature_sizes=16,8", "--num_classes=10"]
    more = [f"--max_steps={step}", "--batch_size=16", "--num_epochs=50"]
    assert train.main([f"--train_data_pattern={data}", f"--train_dir={folder}", *flags, *more]) == 0


@pytest.mark.heavy
def test_an_evaluation_of_a_training_that_has_ended_ends(tmp_path: pathlib.Path, caplog) -> None:
    train_to(tmp_path / "run", 3)
    data = golden("checkpoint_logistic/test.tfrecord")
    with caplog.at_level("INFO", "absl"):
        assert evaluation.main([f"--train_dir={tmp_path}/run", f"--eval_data_pattern={data}"]) == 0
    (row,) = (tmp_path / "run/eval/metrics.jsonl").read_text().splitlines()
    assert json.loads(row)["step"] == 3
    assert "the training has ended (" in caplog.text
    assert "waiting" not in caplog.text


@pytest.mark.heavy
@pytest.mark.long
def test_each_new_checkpoint_is_evaluated_once(tmp_path: pathlib.Path) -> None:
    train_to(tmp_path / "run", 3)
    (tmp_path / "run/ended.json").unlink()  # as if it were killed
    data = golden("checkpoint_logistic/test.tfrecord")
    words = [sys.executable, "eval.py", f"--train_dir={tmp_path}/run", f"--eval_data_pattern={data}"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, cwd=ROOT)
    try:
        evaluated = (line.split()[5] for line in process.stderr if "epoch/eval number" in line)
        assert next(evaluated) == "3"
        waiting = next(line for line in process.stderr if "waiting" in line)
        assert f"a checkpoint newer than {tmp_path}/run/model.ckpt-3 (--run_once evaluates once" in waiting
        train_to(tmp_path / "run", 6)
        assert next(evaluated) == "6"
        remaining_lines = process.stderr.read()
        assert process.wait() == 0
        assert "epoch/eval number" not in remaining_lines
        assert "the training has ended (finished)" in remaining_lines
    finally:
        process.kill()
        process.wait()
