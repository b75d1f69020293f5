"""The guide through one training names functions that exist, in as many stations as it says."""

from __future__ import annotations

import ast
import re

import pytest
from docs.command_blocks import ROOT

PAGE = (ROOT / "docs/developers/one_training.md").read_text()
NAMED = sorted(set(re.findall(r"`(yt8m/[\w/]+\.py):([\w.]+)`", PAGE)))


def definitions(path: str) -> set[str]:
    """The functions and classes of a file; methods as Class.method."""
    names = set()
    for node in ast.parse((ROOT / path).read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
            names |= {f"{node.name}.{each.name}" for each in ast.walk(node) if isinstance(each, ast.FunctionDef)}
    return names


@pytest.mark.parametrize(("path", "name"), NAMED, ids=lambda value: value)
def test_a_named_function_exists(path: str, name: str) -> None:
    assert name in definitions(path)


def test_named_files_exist() -> None:
    paths = set(re.findall(r"`(yt8m/[\w/]+\.py)[:`]", PAGE))
    assert {path for path in paths if not (ROOT / path).is_file()} == set()


def test_there_are_fifteen_stations_of_a_few_lines() -> None:
    stations = re.findall(r"^### (\d+)\. .*\n((?:[^#\n].*\n)+)", PAGE, re.MULTILINE)
    assert [int(number) for number, _ in stations] == list(range(1, 16))
    assert max(len(text.splitlines()) for _, text in stations) <= 6
    assert all("`yt8m/" in text for _, text in stations)


def test_the_page_on_architecture_is_short() -> None:
    assert len((ROOT / "docs/developers/architecture.md").read_bytes()) <= 15_000
