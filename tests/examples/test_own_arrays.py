"""The shortest script: features and a table of labels in, a table of scores and a run out."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from docs.command_blocks import ROOT

import yt8m

SCRIPT = ROOT / "examples/own_arrays.py"


def test_it_has_six_lines() -> None:
    assert len(SCRIPT.read_text().split("\n")) - 1 == 6


@pytest.mark.heavy
def test_it_writes_scores_and_a_run(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    labels = draw.random((2300, 3)) < 0.4
    x = labels @ draw.normal(size=(3, 8)) + 0.3 * draw.normal(size=(2300, 8))
    np.save(tmp_path / "features.npy", x.astype("f"))
    names = np.array(["ant", "bee", "cat"])
    pd.DataFrame({"labels": [";".join(names[row]) for row in labels]}).to_csv(tmp_path / "labels.csv")
    monkeypatch.chdir(tmp_path)
    subprocess.run([sys.executable, SCRIPT], check=True)
    scores = pd.read_csv("scores.csv", index_col=0)
    assert scores.columns.tolist() == names.tolist()
    assert ((scores.to_numpy() > 0.5) == labels[2000:]).mean() > 0.95
    with yt8m.load("runs/mine") as model:
        assert model.num_classes == 3
