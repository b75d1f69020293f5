"""The notebook on classes from their names runs, and labels make its tags better than those of random weights."""

from __future__ import annotations

import pathlib
import re

import notebooks
import pytest

NOTEBOOK = "zero_shot.ipynb"


def test_it_is_kept_without_outputs() -> None:
    assert not notebooks.has_outputs(NOTEBOOK)


@pytest.mark.heavy
@pytest.mark.long
def test_it_runs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = notebooks.run(NOTEBOOK, tmp_path, monkeypatch, timeout=600)
    assert any("image/png" in output.get("data", {}) for output in outputs)
    text = "".join(output.get("text", "") for output in outputs)
    assert "runs/zero: 3 classes as texts of hf:tiny_siglip" in text
    assert len(re.findall(r"^clips/\w+/\d+\.mp4 \{'(?:red|green|blue)': 0\.\d+", text, re.MULTILINE)) == 3
    precision = dict(re.findall(r"^(runs/\w+) mean average precision ([\d.]+)", text, re.MULTILINE))
    assert float(precision["runs/few"]) >= 0.9 > float(precision["runs/zero"])
