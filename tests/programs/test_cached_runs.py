"""A run with --cache learns the very weights of one without, stopped and resumed too."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from small_run import losses, run, weights

from yt8m import train


@pytest.mark.heavy
def test_weights_are_those_of_a_run_without_it(tmp_path: pathlib.Path) -> None:
    cache = f"--cache={tmp_path / 'cache'}"
    assert run(tmp_path / "plain") == 0
    assert run(tmp_path / "cached", "--max_steps=7", cache) == 0
    assert run(tmp_path / "cached", cache) == 0  # the second life reads what the first has kept
    assert len(list((tmp_path / "cache").iterdir())) == 1
    assert losses(tmp_path / "cached") == losses(tmp_path / "plain")
    expected, found = weights(tmp_path / "plain", 12), weights(tmp_path / "cached", 12)
    assert sorted(found) == sorted(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.mark.heavy
def test_a_run_may_take_one_up_or_leave_it(tmp_path: pathlib.Path) -> None:
    """By shards the position is the same; what waited to be shuffled is no position for the other kind."""
    folder = tmp_path / "run"
    assert run(folder, "--max_steps=3") == 0
    assert run(folder, "--max_steps=6", f"--cache={tmp_path / 'cache'}") == 0
    assert run(folder, "--max_steps=9") == 0
    assert sorted(losses(folder)) == list(range(1, 10))


def test_frames_are_refused_on_the_command_line(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--frame_features", f"--cache={tmp_path}", f"--train_dir={tmp_path / 'run'}"]
    assert train.main(["--train_data_pattern=" + __file__, *words]) == 2
    said = capsys.readouterr().err
    assert f"--cache={tmp_path} saves the time to parse" in said
    assert "With --frame_features it would save nothing" in said
