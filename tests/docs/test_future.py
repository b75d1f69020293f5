"""The page on a future without TensorFlow lists the ops that the models use."""

from __future__ import annotations

import importlib.util
import pathlib
import types

import pytest
from contract.model_cases import FEW
from installed_packages import Packages

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/users/future.md"


@pytest.fixture(scope="module")
def ops() -> types.ModuleType:
    spec = importlib.util.spec_from_file_location("ops_of_models", ROOT / "docs/ops.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def listed(ops: types.ModuleType) -> str:
    return PAGE.read_text().partition(ops.BEGIN)[2].partition(ops.END)[0]


@pytest.mark.parametrize("name", FEW)
def test_every_op_of_a_model_has_a_row(ops: types.ModuleType, name: str) -> None:
    of_all, _, rows = listed(ops).partition("\n\n")
    for op in ops.ops_of(name):
        who = [row for row in rows.splitlines() if row.startswith(f"| {op} |")]
        assert who or f" {op}," in of_all or f" {op}." in of_all, op
        assert not who or f"all but {name}" not in who[0]


def test_the_list_leaves_classes_of_installed_packages_out(
    ops: types.ModuleType, packages: Packages, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages.install_all_kinds()
    monkeypatch.setattr(ops, "ops_of", lambda name: {f"OpOf{name}"})
    assert "| OpOfMoeModel | MoeModel |" in ops.table()
    assert "AcmeModel" not in ops.table()


@pytest.mark.heavy
def test_the_list_is_that_of_all_models(ops: types.ModuleType) -> None:
    assert listed(ops) == ops.table(), "run python docs/ops.py"
