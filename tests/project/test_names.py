"""Names of variables and functions say what they hold: words that fit anything cannot be searched for."""

from __future__ import annotations

import ast
import pathlib
import re
from collections.abc import Iterator

import sources

VARIABLES = {
    *("found", "given", "told", "one", "asked", "held", "there", "kept", "known"),
    *("parts", "what", "own", "named", "rest", "more", "many", "left", "how"),
}
FUNCTIONS = {"of", "told", "described", "noted", "named", "found", "taken", "given", "asked", "kept"}
ALLOWED = {"matmul left", "float16_matmul left", "product left"}  # the operands of a product are left and right


def functions(path: pathlib.Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in sources.nodes(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def names_in(function: ast.AST) -> set[str]:
    nodes = list(ast.walk(function))
    stored = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {node.arg for node in nodes if isinstance(node, ast.arg)}


def vague_names(path: pathlib.Path) -> Iterator[str]:
    for function in functions(path):
        if function.name.strip("_") in FUNCTIONS:
            yield f"the function {function.name}"
        for name in sorted(names_in(function) & VARIABLES):
            if f"{function.name} {name}" not in ALLOWED:
                yield f"{name} in {function.name}"


def test_no_name_of_the_package_fits_anything() -> None:
    vague = {path.name: names for path in sources.files() if (names := list(vague_names(path)))}
    assert vague == {}, "name what the value is: features, lines, flags, digest"


def test_a_vague_name_is_seen(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "module.py"
    source.write_text(
        "def read(path):\n    found = [one for one in path]\n    return found\n\ndef _told(x):\n    pass\n"
    )
    assert list(vague_names(source)) == ["found in read", "one in read", "the function _told"]


def unknown_arguments(path: pathlib.Path) -> Iterator[str]:
    """The names that a section `Args` describes, but that the function, or the constructor of the class, lacks."""
    for node in sources.nodes(path):
        constructor = isinstance(node, ast.ClassDef) and next(
            (part for part in node.body if getattr(part, "name", "") == "__init__"), None
        )
        called = constructor or (node if isinstance(node, ast.FunctionDef) else None)
        described = isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node)
        if called and described:
            section = re.split(r"\n\n(?=\w)", described.partition("\nArgs:\n")[2])[0]
            names = re.findall(r"^  ([*\w]+(?:, [*\w]+)*): ", section, re.MULTILINE)
            parameters = {argument.arg for argument in ast.walk(called.args) if isinstance(argument, ast.arg)}
            for name in {name.strip("*") for text in names for name in text.split(", ")} - parameters:
                yield f"{node.name}: {name}"


def test_each_described_argument_is_one() -> None:
    unknown = {path.name: names for path in sources.files() if (names := list(unknown_arguments(path)))}
    assert unknown == {}
