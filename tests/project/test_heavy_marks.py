"""A test with the mark `heavy` has it for all of its cases: its list of cases marks none of them again."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeAlias

import pytest
from sources import ROOT, tree

HEAVY = "pytest.mark.heavy"
MARKING = {HEAVY, "cases.all_of", "cases.only", "quick"}  # in a list of cases, some of which are heavy
Marked: TypeAlias = ast.Module | ast.ClassDef | ast.FunctionDef


def marks_some(node: ast.AST, names: set[str]) -> bool:
    """Whether an expression or a statement marks cases: by one of the names, or as `kinds("video", heavy=...)`."""
    return any(
        (isinstance(each, ast.keyword) and each.arg == "heavy")
        or (isinstance(each, (ast.Name, ast.Attribute)) and ast.unparse(each) in names)
        for each in ast.walk(node)
    )


def makes_heavy_cases(function: ast.FunctionDef, names: set[str]) -> bool:
    """Whether a function marks cases in every call; one with an argument `heavy` marks those that it is given."""
    arguments = {each.arg for each in (*function.args.args, *function.args.kwonlyargs)}
    return "heavy" not in arguments and any(marks_some(each, names) for each in function.body)


def marking_names(module: ast.Module) -> set[str]:
    """`MARKING`, and the names in a file of lists with heavy cases and of functions that make them."""
    names = set(MARKING)
    for node in module.body:
        if isinstance(node, ast.Assign) and marks_some(node.value, names):
            names.update(map(ast.unparse, node.targets))
        if isinstance(node, ast.AnnAssign) and node.value and marks_some(node.value, names):
            names.add(ast.unparse(node.target))
        if isinstance(node, ast.FunctionDef) and makes_heavy_cases(node, names):
            names.add(node.name)
    return names


def marks_of(node: Marked) -> Iterator[ast.expr]:
    """The marks of a file, a class or a test."""
    yield from getattr(node, "decorator_list", [])
    for each in node.body:
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "pytestmark":
            yield from getattr(each.value, "elts", [each.value])


def marked_again(node: Marked, names: set[str], is_heavy: bool = False) -> Iterator[str]:
    """The lists that mark single cases of what is heavy as a whole, in this node and what is in it."""
    marks = list(marks_of(node))
    others = [mark for mark in marks if ast.unparse(mark) != HEAVY]
    is_heavy = is_heavy or len(others) < len(marks)
    for mark in others:
        if is_heavy and marks_some(mark, names):
            yield f"line {mark.lineno}: {getattr(node, 'name', 'pytestmark')}"
    for inner in node.body:
        if isinstance(inner, (ast.ClassDef, ast.FunctionDef)):
            yield from marked_again(inner, names, is_heavy)


def found_in(module: ast.Module) -> list[str]:
    return list(marked_again(module, marking_names(module)))


def test_no_heavy_test_marks_single_cases() -> None:
    files = [path for path in sorted((ROOT / "tests").rglob("*.py")) if "mark.heavy" in path.read_text("utf-8")]
    found = [f"{path.relative_to(ROOT)}, {what}" for path in files for what in found_in(tree(path))]
    assert found == [], "`make test` runs no case of these: list the cases plainly, or remove the outer mark"


LISTS = """\
POINTS = [10, pytest.param(200, marks=pytest.mark.heavy)]

def kinds(*names, heavy=()):
    return pytest.mark.parametrize("kind", [*names, *(pytest.param(name, marks=pytest.mark.heavy) for name in heavy)])

def counts(many):
    return [20, pytest.param(many, marks=[pytest.mark.heavy, pytest.mark.long])]

"""


@pytest.mark.parametrize(
    "line",
    [
        '@pytest.mark.parametrize("number", [1, pytest.param(2, marks=pytest.mark.heavy)])',
        '@pytest.mark.parametrize("number", cases.all_of([1], heavy=[2]))',
        '@pytest.mark.parametrize("number", cases.only(range(9), [1]))',
        '@pytest.mark.parametrize("name", quick(["DbofModel"]))',
        '@pytest.mark.parametrize("number", POINTS)',
        '@pytest.mark.parametrize("number", counts(1000))',
        '@kinds("video", heavy=("frame",))',
    ],
)
def test_a_case_that_is_marked_again_is_seen(line: str) -> None:
    test = f"{line}\ndef test_tools(number):\n    pass\n"
    in_class = f"class TestTools:\n    {line}\n    def test_tools(self, number): ...\n"
    for_all = "pytestmark = [pytest.mark.heavy, pytest.mark.long]\n"
    refused = [f"@pytest.mark.heavy\n{test}", f"{for_all}{test}", f"@pytest.mark.heavy\n{in_class}"]
    assert [len(found_in(ast.parse(LISTS + text))) for text in refused] == [1, 1, 1]
    assert found_in(ast.parse(LISTS + test + in_class)) == []


@pytest.mark.parametrize(
    "line", ['@pytest.mark.parametrize("number", [1, 2])', '@kinds("video", "frame")', '@pytest.mark.promise("C1")']
)
def test_a_heavy_test_with_a_plain_list_is_taken(line: str) -> None:
    assert found_in(ast.parse(f"{LISTS}@pytest.mark.heavy\n{line}\ndef test_tools(number):\n    pass\n")) == []
