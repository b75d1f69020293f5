"""The tutorial's section on fine-tuning: its commands run, and few videos are enough for a model that knows many."""

from __future__ import annotations

import contextlib
import json
import pathlib

import pytest
from docs.command_blocks import ROOT

from docs import command_blocks

PAGE = ROOT / "docs" / "users" / "tutorial.md"
HEADING = "## Fine-tune on classes of your own"


@pytest.mark.heavy
@pytest.mark.long
def test_fine_tuning_on_few_videos_gains_what_the_page_says(tmp_path: pathlib.Path) -> None:
    lines = PAGE.read_text().splitlines()
    begin = lines.index(HEADING)
    (block,) = [one for one in command_blocks.blocks(PAGE) if one.language == "sh" and one.line > begin][:1]
    with contextlib.chdir(tmp_path):
        pathlib.Path("two_sets.py").write_text(command_blocks.files_of(PAGE)["two_sets.py"])
        said = command_blocks.run(block.text)
    assert "19 of the model's 22 variables start from runs/much/model.ckpt-895:" in said
    for name in ("gates/weights", "experts/weights", "experts/biases"):
        assert f"tower/{name} " in said
    for name, (early, late) in {"fresh": (0.33, 0.69), "tuned": (0.64, 0.91)}.items():
        told = json.loads((tmp_path / "runs" / name / "validation.json").read_text())["validations"]
        # Other processors round differently, and training takes small differences further.
        assert told[0]["GAP"] == pytest.approx(early, abs=0.05)
        assert told[-1]["GAP"] == pytest.approx(late, abs=0.05)
        row = next(
            line for line in lines[begin:] if line.startswith("| from " + ("fresh" if name == "fresh" else "the"))
        )
        assert f"| {early:.2f} | {late:.2f} |" in row
