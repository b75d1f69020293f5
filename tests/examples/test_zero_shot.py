"""The notebook on classes from their names runs, and labels make its tags better than those of random weights."""

from __future__ import annotations

import os
import pathlib
import re

import nbclient
import nbformat
import pytest

NOTEBOOK = pathlib.Path(__file__).parents[2] / "examples" / "zero_shot.ipynb"


def test_it_is_kept_without_outputs() -> None:
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.outputs and cell.execution_count is None for cell in notebook.cells if cell.cell_type == "code")


@pytest.mark.heavy
@pytest.mark.long
def test_it_runs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(NOTEBOOK.parents[1]), os.environ.get("PYTHONPATH", "")]))
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    done = nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in done.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    text = "".join(output.get("text", "") for output in outputs)
    assert "runs/zero: 3 classes as texts of hf:tiny_siglip" in text
    assert len(re.findall(r"^clips/\w+/\d+\.mp4 \{'(?:red|green|blue)': 0\.\d+", text, re.MULTILINE)) == 3
    precision = dict(re.findall(r"^(runs/\w+) mean average precision ([\d.]+)", text, re.MULTILINE))
    assert float(precision["runs/few"]) >= 0.9 > float(precision["runs/zero"])
