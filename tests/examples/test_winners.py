"""The pipeline of the winners runs from end to end, and goes on where it was interrupted."""

from __future__ import annotations

import pathlib
import re

import pytest

from examples import winners
from recipes import files
from yt8m import models
from yt8m.command_line import cli


def test_families_have_small_recipes() -> None:
    assert {*winners.FAMILIES, winners.STUDENT} <= set(models.built_in_names())
    assert all((winners.RECIPES / f"{name}.flags").exists() for name in winners.FAMILIES)
    assert f"--num_classes={winners.CLASSES}" in files.DATA.read_text()


@pytest.mark.heavy
@pytest.mark.long
def test_each_step_has_a_row_and_the_student_gains_by_its_teacher(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"--flagfile={files.DATA}", "--level=frame", f"--out={tmp_path}/data"]
    assert cli.main(["sample-data", *words]) == 0
    patterns = [f"{tmp_path}/data/frame/{part}/*.tfrecord" for part in ("train", "validate")]
    capsys.readouterr()
    winners.main(f"{tmp_path}/runs", *patterns)
    printed = capsys.readouterr().out
    rows = dict(re.findall(r"^\| (.+?) \| (0\.\d{3}|1\.000) \|$", printed, re.MULTILINE))
    assert "MB; the limit was 1 GB" in printed
    gaps = {name: float(gap) for name, gap in rows.items()}
    ensemble = gaps.pop("ensemble of the three means")
    assert len(gaps) == 8
    assert ensemble > max(gaps.values())
    untaught = f"{winners.STUDENT}, {winners.PASSES} passes"
    assert gaps.pop(f"{untaught}, that learned from the ensemble too") > max(gaps.values())
    assert untaught in gaps
