"""The tests of each promise of docs/developers/promises.md, by their marks; `make promises` prints them."""

from __future__ import annotations

import ast
import functools
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/developers/promises.md"
HEAVY = "heavy"
ROW = re.compile(r"^\| ([ICOPNFX]\d{1,2}) \|", re.MULTILINE)


def ids() -> list[str]:
    """The id of each promise, in the order of the page; one with several rows is listed once."""
    return list(dict.fromkeys(ROW.findall(PAGE.read_text())))


def ids_of(decorated: ast.AST) -> set[str]:
    """The promises in the marks of a test or a file; with `HEAVY` if the mark `heavy` is among the marks."""
    marked = decorated.elts if isinstance(decorated, ast.List) else [decorated]
    heavy = {HEAVY} if "pytest.mark.heavy" in map(ast.unparse, marked) else set()
    return heavy | {
        str(argument.value)
        for node in ast.walk(decorated)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.promise"
        for argument in node.args
        if isinstance(argument, ast.Constant)
    }


@functools.cache
def marks() -> dict[str, set[str]]:
    """{`file::test`: the promises that the test is marked with, and `HEAVY`}, of files that name a promise."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if "mark.promise" not in (text := path.read_text()):
            continue
        body = ast.parse(text).body
        whole = [
            ids_of(node.value)
            for node in body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
        ]
        for node in body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                marked = set().union(*whole, *map(ids_of, node.decorator_list))
                found[f"{path.relative_to(ROOT)}::{node.name}"] = marked
    return found


def main() -> None:
    found = marks()
    for promise in ids():
        print(promise)
        for name, promises in found.items():
            if promise in promises:
                print(f"  {name}{' (heavy)' if HEAVY in promises else ''}")


if __name__ == "__main__":
    main()
