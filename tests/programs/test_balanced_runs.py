"""A run on balanced epochs that was killed and resumed equals the unbroken one, with a cache too."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest
from small_run import kill_in_the_middle, losses, run, train_words, weights


@pytest.fixture
def counts(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "vocabulary.csv"
    rows = [f"{index},class {index},{2 ** (10 - index)}" for index in range(10)]
    path.write_text("\n".join(["index,name,count", *rows]) + "\n")
    return f"--vocabulary={path}"


@pytest.mark.heavy
@pytest.mark.long
def test_killed_and_resumed(tmp_path: pathlib.Path, counts: str) -> None:
    flags = ("--balance=0.7", counts, "--max_steps=40", "--save_checkpoint_steps=7", "--shuffle_buffer=24")
    assert run(tmp_path / "whole", *flags) == 0
    assert run(tmp_path / "cached", *flags, f"--cache={tmp_path / 'cache'}") == 0
    assert run(tmp_path / "plain", *flags[2:]) == 0
    for name, more in (("killed", ()), ("killed_cached", (f"--cache={tmp_path / 'cache'}",))):
        folder = tmp_path / name
        kill_in_the_middle(train_words(folder, *flags[:2], *flags[3:], "--max_steps=100000", *more), "step 16 ")
        assert run(folder, *flags, *more) == 0
    expected = weights(tmp_path / "whole", 40)
    for name in ("cached", "killed", "killed_cached"):
        for variable, value in weights(tmp_path / name, 40).items():
            np.testing.assert_array_equal(value, expected[variable], err_msg=f"{name}: {variable}")
    assert losses(tmp_path / "plain") != losses(tmp_path / "whole")
