"""README is short, and its way for own features works as a new user goes it: a table, an array, three commands."""

from __future__ import annotations

import pathlib
import re
import shlex
import tomllib

import numpy as np
import pytest
from docs.command_blocks import ROOT

from docs import command_blocks
from yt8m.command_line import cli
from yt8m.training.search.budget_clock import BudgetClock

FOR_DEVELOPERS = {"test", "docs", "peers", "mutants"}  # extras that a user of the package does not need


def test_it_is_read_in_minutes_and_has_three_ways_in() -> None:
    text = (ROOT / "README.md").read_text()
    assert text.count("\n") <= 120
    ways = re.findall(r"^\*\*(.+?)\.\*\*", text.partition("## Three ways in")[2].partition("\n## ")[0], re.MULTILINE)
    assert ways == ["Your own videos", "Your own features", "YouTube-8M"]
    assert "-c constraints.txt" in text


def test_the_table_of_extras_is_that_of_the_package() -> None:
    rows = re.findall(r"^\| (`.+?) \|", (ROOT / "README.md").read_text(), re.MULTILINE)
    extras = set(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    assert {name for row in rows for name in re.findall(r"`(.+?)`", row)} == extras - FOR_DEVELOPERS


@pytest.mark.long
def test_the_way_for_own_features_ends_with_predictions(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    draw = np.random.default_rng(0)
    classes = draw.integers(0, 3, 300)
    np.save(tmp_path / "features.npy", draw.normal(size=(300, 8)).astype("f4") + 3 * np.eye(3, 8)[classes])
    rows = [f"clip{number},{['dog', 'cat', 'fish'][label]}" for number, label in enumerate(classes)]
    (tmp_path / "labels.csv").write_text("\n".join(["id,labels", *rows]) + "\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(BudgetClock, "spent", lambda _: 0.0)  # the clock of a busy machine cuts no plan short
    (block,) = (each for each in command_blocks.blocks(ROOT / "README.md") if "--array=features.npy" in each.text)
    make, train, predict = (shlex.split(line)[1:] for line in block.text.splitlines())
    assert cli.main(make) == 0
    assert cli.main([*train, "--budget=3"]) == 0
    assert cli.main(predict) == 0
    assert cli.main([*predict, "--tags"]) == 0  # by the thresholds of the choice
    told = capfd.readouterr()
    said = told.out
    assert "300 videos, 3 classes" in told.err
    figure = re.search(r"on which nothing was chosen: mAP ([\d.]+)", said)
    assert figure is not None
    assert float(figure.group(1)) > 0.9
    assert len(re.findall(r"^clip\d+  labels: (?:dog|cat|fish)$", said, re.MULTILINE)) == 6
    assert "search_thresholds.csv" in told.err
    assert 0 < told.err.count("records expected") < 10  # of some fifty epochs
