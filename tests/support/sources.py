"""The sources of the package, each parsed once for all tests of a process."""

from __future__ import annotations

import ast
import functools
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "yt8m"


@functools.cache
def files() -> list[pathlib.Path]:
    """The modules of the package."""
    return sorted(PACKAGE.rglob("*.py"))


@functools.cache
def tree(path: pathlib.Path) -> ast.Module:
    """The syntax tree of a file, which nobody changes."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def nodes(path: pathlib.Path) -> list[ast.AST]:
    """All nodes of the tree."""
    return list(ast.walk(tree(path)))
