"""A run that was stopped and resumed in a new process equals the unbroken one, bit for bit."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import numpy as np
import pytest
from golden_data import golden
from small_run import losses, weights

ROOT = pathlib.Path(__file__).resolve().parents[2]


# Draws frames at random.
DBOF = ("--model=DbofModel", "--dbof_cluster_size=12", "--dbof_hidden_size=7", "--iterations=4")
MEAN = ("--model=FrameLevelLogisticModel",)


def train(folder: pathlib.Path, steps: int, *more: str) -> str:
    """Trains a model on frames; returns the log."""
    words = [
        sys.executable,
        "train.py",
        f"--train_data_pattern={golden('tiny_frame.tfrecord')},{golden('tiny_segment.tfrecord')}",
        f"--train_dir={folder}",
        "--frame_features",
        "--feature_names=rgb,audio",
        "--feature_sizes=16,8",
        "--num_classes=20",
        "--batch_size=3",
        "--num_epochs=40",
        "--exact_resume",
        "--log_every_n_steps=1",
        f"--max_steps={steps}",
        *more,
    ]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.heavy
@pytest.mark.long
@pytest.mark.parametrize(("model", "towers"), [(DBOF, 1), (DBOF, 2), (MEAN, 2)])
def test_the_next_twenty_steps_are_those_of_the_unbroken_run(
    tmp_path: pathlib.Path, model: tuple[str, ...], towers: int
) -> None:
    flags = (*model, f"--num_gpu={towers}")
    train(tmp_path / "whole", 27, *flags)
    for name in ("saved", "rebuilt"):
        train(tmp_path / name, 7, *flags)
    (tmp_path / "rebuilt/model.ckpt-7.meta").unlink()
    assert "graph saved" in train(tmp_path / "saved", 27, *flags)
    assert "the graph is rebuilt" in train(tmp_path / "rebuilt", 27, *flags)
    expected = weights(tmp_path / "whole", 27)
    assert len(losses(tmp_path / "whole")) == 27
    for name in ("saved", "rebuilt"):
        assert losses(tmp_path / name) == losses(tmp_path / "whole")
        found = weights(tmp_path / name, 27)
        assert sorted(found) == sorted(expected)
        for variable, value in expected.items():
            np.testing.assert_array_equal(found[variable], value, err_msg=variable)
