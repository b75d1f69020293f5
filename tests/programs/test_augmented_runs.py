"""A run on changed frames that was stopped and resumed equals the unbroken one."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from golden_data import golden
from small_run import losses, weights

from yt8m import train


def run(folder: pathlib.Path, steps: int, *more: str) -> None:
    words = [
        f"--train_data_pattern={golden('tiny_frame.tfrecord')},{golden('tiny_segment.tfrecord')}",
        f"--train_dir={folder}",
        "--model=FrameLevelLogisticModel",
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
    assert train.main(words) == 0


@pytest.mark.heavy
def test_changed_frames_are_changed_alike_after_a_resume(tmp_path: pathlib.Path) -> None:
    changes = ("--augment_crop=0.4", "--augment_frame_dropout=0.3", "--augment_noise=0.2", "--mixup=0.5")
    run(tmp_path / "whole", 10, *changes)
    run(tmp_path / "halves", 4, *changes)
    run(tmp_path / "halves", 10, *changes)
    run(tmp_path / "plain", 10)
    assert losses(tmp_path / "halves") == losses(tmp_path / "whole")
    assert losses(tmp_path / "plain") != losses(tmp_path / "whole")
    expected = weights(tmp_path / "whole", 10)
    for variable, value in weights(tmp_path / "halves", 10).items():
        np.testing.assert_array_equal(value, expected[variable], err_msg=variable)
