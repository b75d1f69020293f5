"""Runs a notebook of examples/ in a folder of its own."""

from __future__ import annotations

import os
import pathlib
from typing import Any

import nbclient
import nbformat
import pytest

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


def has_outputs(name: str) -> bool:
    """Whether the notebook was stored with results."""
    cells = nbformat.read(EXAMPLES / name, as_version=4).cells
    return any(cell.outputs or cell.execution_count is not None for cell in cells if cell.cell_type == "code")


def run(name: str, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, timeout: int) -> list[Any]:
    """Runs a notebook in `folder`; returns the outputs of all cells. Each cell may take `timeout` seconds."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(EXAMPLES.parent), os.environ.get("PYTHONPATH", "")]))
    for variable in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(variable, str(folder / variable))
    notebook = nbformat.read(EXAMPLES / name, as_version=4)
    done = nbclient.NotebookClient(notebook, timeout=timeout, resources={"metadata": {"path": str(folder)}}).execute()
    return [output for cell in done.cells if cell.cell_type == "code" for output in cell.outputs]
