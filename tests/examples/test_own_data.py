"""The notebook runs from its first cell to its last, and shows a bar, a plot, and names of its own classes."""

from __future__ import annotations

import pathlib

import notebooks
import pytest

NOTEBOOK = "own_data.ipynb"


def test_it_is_kept_without_outputs() -> None:
    assert not notebooks.has_outputs(NOTEBOOK)


@pytest.mark.heavy
@pytest.mark.long
def test_it_runs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = notebooks.run(NOTEBOOK, tmp_path, monkeypatch, timeout=240)
    kinds = {kind for output in outputs for kind in output.get("data", {})}
    assert {"image/png", "application/vnd.jupyter.widget-view+json"} <= kinds
    text = "".join(output.get("text", "") for output in outputs)
    for name in ("cat", "dog", "bird"):
        assert f"'{name}'" in text
    assert "class 0" not in text
    assert "Game" not in text
