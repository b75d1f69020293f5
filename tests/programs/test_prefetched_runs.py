"""`--prefetch_to_device` from the command line: the weights of a run without it, on videos and on frames."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import numpy as np
import pytest
from golden_data import golden
from small_run import losses, run, train_words, weights

from yt8m import train


def videos() -> list[str]:
    return ["--num_gpu=2", "--accumulate_steps=2"]


def frames() -> list[str]:
    return [
        f"--train_data_pattern={golden('tiny_frame.tfrecord')},{golden('tiny_segment.tfrecord')}",
        "--frame_features",
        "--model=FrameLevelLogisticModel",
        "--feature_names=rgb,audio",
        "--num_classes=20",
        "--batch_size=3",
    ]


@pytest.mark.heavy
@pytest.mark.parametrize("words", [videos, frames])
def test_losses_and_weights_are_those_without(tmp_path: pathlib.Path, words: Callable[[], list[str]]) -> None:
    usual = ["--exact_resume=False", "--max_steps=4", *words()]
    for name, more in (("plain", []), ("ahead", ["--prefetch_to_device"])):
        assert run(tmp_path / name, *usual, *more) == 0
    assert losses(tmp_path / "ahead") == losses(tmp_path / "plain")
    assert len(losses(tmp_path / "plain")) == 4
    found, expected = (weights(tmp_path / name, 4) for name in ("ahead", "plain"))
    assert sorted(found) == sorted(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_it_is_refused_with_exact_resume_before_anything_is_written(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = train_words(tmp_path / "run", "--prefetch_to_device")
    assert "--exact_resume" in words
    assert train.main(words) == 2
    assert "--exact_resume saves" in capfd.readouterr().err
    assert not (tmp_path / "run").exists()
