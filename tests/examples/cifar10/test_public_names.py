"""The example stands on the engine's public names alone, and brings nothing that the engine has."""

from __future__ import annotations

import ast
import importlib
import pathlib

import pytest

FILES = sorted((pathlib.Path(__file__).resolve().parents[3] / "examples" / "cifar10").glob("*.py"))
ENGINE = ("yt8m.runner", "yt8m.deploy", "yt8m.graph")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_only_public_names_of_the_engine_are_used(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert not any(alias.name.startswith(tuple(f"{name}." for name in ENGINE)) for alias in node.names)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(ENGINE):
            assert node.module in ENGINE, f"{path.name} reaches into {node.module}"
            public = importlib.import_module(node.module).__all__
            assert {alias.name for alias in node.names} <= set(public)


def test_there_is_no_gradient_function_or_callback_of_its_own():
    for path in FILES:
        text = path.read_text()
        assert "compute_gradients" not in text, path.name
        assert "apply_gradients" not in text, path.name
        assert "SessionRunHook)" not in text, path.name
