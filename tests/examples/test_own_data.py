"""The notebook runs from its first cell to its last, and shows a bar, a plot, and names of its own classes."""

from __future__ import annotations

import os
import pathlib

import nbclient
import nbformat
import pytest

NOTEBOOK = pathlib.Path(__file__).parents[2] / "examples" / "own_data.ipynb"


def test_it_is_kept_without_outputs() -> None:
    found = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.outputs and cell.execution_count is None for cell in found.cells if cell.cell_type == "code")


@pytest.mark.heavy
@pytest.mark.long
def test_it_runs(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(NOTEBOOK.parents[1]), os.environ.get("PYTHONPATH", "")]))
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(name, str(tmp_path / name))
    found = nbformat.read(NOTEBOOK, as_version=4)
    done = nbclient.NotebookClient(found, timeout=240, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in done.cells if cell.cell_type == "code" for output in cell.outputs]
    kinds = {kind for output in outputs for kind in output.get("data", {})}
    assert {"image/png", "application/vnd.jupyter.widget-view+json"} <= kinds
    text = "".join(output.get("text", "") for output in outputs)
    for name in ("cat", "dog", "bird"):
        assert f"'{name}'" in text
    assert "class 0" not in text
    assert "Game" not in text
