"""Docstrings outside of the published API say what the code cannot: no `x: the x.`, and no list of errors."""

from __future__ import annotations

import ast
import functools
import re

import sources
from sources import ROOT

# Programs: their errors are what users see.
RUNS = ("run", "main")


def published() -> set[str]:
    """The modules that docs/reference lists."""
    pages = (ROOT / "docs/reference").glob("*.md")
    return {name for page in pages for name in re.findall(r"^::: (yt8m[\w.]*)", page.read_text(), re.MULTILINE)}


def offered(modules: set[str]) -> dict[str, set[str]]:
    """{module: names} of what the published packages import from other modules and so publish too."""
    names: dict[str, set[str]] = {}
    for module in modules:
        folder = ROOT / module.replace(".", "/")
        path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        for node in sources.nodes(path):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("yt8m"):
                names.setdefault(node.module or "", set()).update(alias.name for alias in node.names)
    return names


@functools.cache
def inner_docstrings() -> list[tuple[str, str]]:
    """(place, docstring) of each function and class outside of the published API."""
    found = []
    modules = published()
    others = offered(modules)
    for path in sources.files():
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        if module in modules:
            continue
        for top in sources.tree(path).body:
            if getattr(top, "name", "") in others.get(module, ()):
                continue
            for node in ast.walk(top):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    found.append((f"{module}:{node.name}", ast.get_docstring(node) or ""))
    return found


def entries_without_content(docstring: str) -> list[str]:
    """The entries of the form `x: the x.` or `paths: the paths.`"""
    entries = re.findall(r"^ +\**(\w+): (?:the |its )?([\w ]+)\.$", docstring, re.MULTILINE)
    return [name for name, text in entries if name.replace("_", " ") == text]


def test_an_entry_says_more_than_its_name() -> None:
    assert {place: found for place, text in inner_docstrings() if (found := entries_without_content(text))} == {}


def test_inner_functions_list_no_errors() -> None:
    """The `raise` lines and the tests of promises say which errors there are."""
    listing = [place for place, text in inner_docstrings() if re.search(r"^ *Raises:$", text, re.MULTILINE)]
    assert [place for place in listing if place.partition(":")[2] not in RUNS] == []


def test_the_check_sees_what_it_is_for() -> None:
    assert entries_without_content("Args:\n  max_bytes: the max bytes.\n  path: the path of the file.") == ["max_bytes"]
