"""`make demo` shows figures of a model that has learned: no third of its classes is zero for want of videos."""

from __future__ import annotations

import pathlib
import re
import shlex

import pytest
from sources import ROOT

from yt8m import eval as evaluation
from yt8m import train
from yt8m.command_line import cli
from yt8m.records import vocabulary


def commands() -> list[list[str]]:
    """The commands of the target `demo` that begin with a program, as words."""
    (recipe,) = re.findall(r"^demo: .*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    lines = recipe.replace("\\\n", " ").splitlines()
    return [shlex.split(line.replace("$(BIN)/", "")) for line in lines if "$(BIN)/" in line]


@pytest.mark.heavy
def test_every_third_of_the_classes_learns(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    sample, training, evaluating, _ = commands()
    assert cli.main(sample[1:]) == 0
    assert len(vocabulary.read("demo/data/vocabulary.csv")) == 100
    assert train.main(training[2:]) == 0
    capsys.readouterr()
    assert evaluation.main([word for word in evaluating[2:] if word != "--report"]) == 0
    figures = r"^│ ((?:GAP|mAP|Hit@1|PERR)[ a-z]*?) +│ +([\d.]+|—.*?) │"
    rows = dict(re.findall(figures, capsys.readouterr().out, re.MULTILINE))
    assert {"GAP head", "GAP middle", "GAP tail", "mAP head", "mAP middle", "mAP tail"} < set(rows)
    assert min(map(float, rows.values())) > 0.2
