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
    assert {*winners.FAMILIES, winners.STUDENT} <= set(models.names())
    assert all((winners.RECIPES / f"{name}.flags").exists() for name in winners.FAMILIES)
    assert f"--num_classes={winners.CLASSES}" in files.DATA.read_text()


@pytest.mark.heavy
@pytest.mark.long
def test_it_prints_a_row_for_each_step(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--level=frame", "--num_classes=24", "--train=1000", "--validate=100", "--test=0", "--min_frames=20"]
    assert cli.main(["sample-data", *small, "--max_frames=30", f"--out={tmp_path}/data"]) == 0
    patterns = [f"{tmp_path}/data/frame/{part}/*.tfrecord" for part in ("train", "validate")]
    capsys.readouterr()
    winners.main(f"{tmp_path}/runs", *patterns)
    printed = capsys.readouterr().out
    rows = dict(re.findall(r"^\| (.+?) \| (0\.\d{3}|1\.000) \|$", printed, re.MULTILINE))
    assert len(rows) == 8
    assert "MB; the limit was 1 GB" in printed
    single = max(float(rows[name]) for name in winners.FAMILIES)
    assert float(rows["ensemble of the three means"]) > single - 0.1
