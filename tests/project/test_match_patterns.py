"""What a test expects of a message are the facts, such as a name, a number or a flag, so that sentences can improve."""

from __future__ import annotations

import ast
import itertools
import pathlib
import re
from collections.abc import Iterator

import pytest
from sources import ROOT

MOST_WORDS = 4  # such as `it is cut short`: what tells a refusal from others of the same call

Scopes = tuple[ast.AST, ...]  # a function and the assignments of its module


def literal_text(node: ast.expr) -> str:
    """The text of a string, with `{}` in place of each value; empty if it is computed."""
    if isinstance(node, ast.JoinedStr):
        return "".join(literal_text(value) or "{}" for value in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def words_in_a_row(pattern: str) -> int:
    """The most words in a row; a number, a name, a flag or `.*` ends a row."""
    parts = pattern.replace(".*", " .* ").split()
    are_words = (re.fullmatch("[a-z]+('s)?", part.lstrip("^").rstrip("$,;:.?\\")) is not None for part in parts)
    return max((len(list(row)) for is_row, row in itertools.groupby(are_words) if is_row), default=0)


def arguments(function: ast.FunctionDef) -> list[ast.expr]:
    """The arguments `match` in a function."""
    return [node.value for node in ast.walk(function) if isinstance(node, ast.keyword) and node.arg == "match"]


def split(target: ast.expr, value: ast.expr, name: str) -> Iterator[ast.expr]:
    """What a name becomes where a value is assigned to a target, such as `value, told = 0, "it is empty"`."""
    if isinstance(target, ast.Name) and target.id == name:
        yield value
    targets, cells = getattr(target, "elts", []), getattr(value, "elts", [])
    for inner, cell in zip(targets, cells, strict=True) if len(targets) == len(cells) else ():
        yield from split(inner, cell, name)


def assigned(scopes: Scopes, name: str) -> Iterator[ast.expr]:
    """What assignments bind to a name."""
    for node in itertools.chain.from_iterable(map(ast.walk, scopes)):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield from split(target, node.value, name)


def looped(scopes: Scopes, name: str) -> Iterator[ast.expr]:
    """What loops over literal tables bind to a name."""
    for node in itertools.chain.from_iterable(map(ast.walk, scopes)):
        if isinstance(node, ast.For | ast.comprehension):
            for row in rows(scopes, node.iter):
                yield from split(node.target, row, name)


def rows(scopes: Scopes, table: ast.expr) -> Iterator[ast.expr]:
    """The rows of a literal table, or of those that are assigned to a name; of `.items()` the pairs."""
    is_items = isinstance(table, ast.Call) and isinstance(table.func, ast.Attribute) and table.func.attr == "items"
    table = table.func.value if is_items else table
    for literal in assigned(scopes, table.id) if isinstance(table, ast.Name) else [table]:
        yield from getattr(literal, "elts", [])
        if is_items and isinstance(literal, ast.Dict):
            yield from (ast.Tuple([key, value]) for key, value in zip(literal.keys, literal.values, strict=True) if key)


def parameters(scopes: Scopes, function: ast.FunctionDef, name: str) -> Iterator[ast.expr]:
    """The values of a parameter of a test, in the tables of its decorators."""
    for table in function.decorator_list:
        if not isinstance(table, ast.Call) or len(table.args) < 2:
            continue
        names = [literal_text(part) for part in getattr(table.args[0], "elts", [])]
        names = names or re.findall(r"\w+", literal_text(table.args[0]))
        for row in rows(scopes, table.args[1]) if name in names else ():
            many = row.args if isinstance(row, ast.Call) else getattr(row, "elts", [])
            cells = [row] if len(names) == 1 and not isinstance(row, ast.Call) else many
            if len(cells) == len(names):
                yield cells[names.index(name)]


def patterns(module: ast.Module, function: ast.FunctionDef) -> Iterator[ast.expr]:
    """The patterns of a function: its arguments `match`, and what the names in them stand for."""
    scopes = (function, *(node for node in module.body if isinstance(node, ast.Assign | ast.AnnAssign)))
    for argument in arguments(function):
        names = {node.id for node in ast.walk(argument) if isinstance(node, ast.Name)}
        for name in sorted(names):
            yield from (*parameters(scopes, function, name), *assigned(scopes, name), *looped(scopes, name))
        yield argument


def sentences(path: pathlib.Path) -> Iterator[str]:
    """The patterns of a file that fix a sentence."""
    content = path.read_text(encoding="utf-8")
    module = ast.parse(content if "match=" in content else "")
    for function in ast.walk(module):
        for pattern in patterns(module, function) if isinstance(function, ast.FunctionDef) else ():
            if words_in_a_row(literal_text(pattern)) > MOST_WORDS:
                yield f"{path.name}, line {pattern.lineno}: {literal_text(pattern)}"


def test_no_pattern_fixes_a_sentence() -> None:
    found = {sentence for path in (ROOT / "tests").rglob("*.py") for sentence in sentences(path)}
    assert found == set(), "write .* in place of the words between the facts, and keep one or two that tell the refusal"


def test_a_sentence_is_seen(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "test_tools.py"
    source.write_text(
        "@pytest.mark.parametrize(('value', 'told'), [(0, 'it is empty'), (1, 'this is one too many: 1')])\n"
        "def test_tools(value, told):\n"
        '    raises(E, match=r"^--out=a: no file of this name.*5")\n'
        '    raises(E, match=f"{path}, line {number}: it is cut short: .*again")\n'
        "    raises(E, match=told)\n"
    )
    assert list(sentences(source)) == [
        "test_tools.py, line 3: ^--out=a: no file of this name.*5",
        "test_tools.py, line 1: this is one too many: 1",
    ]


TOO_MANY = "'this is one too many: 1'"


@pytest.mark.parametrize(
    ("before", "inside", "pattern"),
    [
        (f"@pytest.mark.parametrize('told', ['1', {TOO_MANY}])", "", "told"),
        (f"@pytest.mark.parametrize('told', ['1', pytest.param({TOO_MANY}, id='2')])", "", "told"),
        (f"@pytest.mark.parametrize('value, told', [(1, {TOO_MANY})])", "", "told"),
        (f"CASES = [(1, {TOO_MANY})]\n@pytest.mark.parametrize(('value', 'told'), CASES)", "", "told"),
        (f"TOLD: str = {TOO_MANY}", "", "TOLD"),
        ("", f"told = {TOO_MANY}", "told"),
        ("", f"value, told = 1, {TOO_MANY}", "told"),
        ("", f"told = {TOO_MANY}", "f'{path}: {told}'"),
        ("", f"told = {TOO_MANY}", "re.escape(told)"),
        ("", f"for value, told in ((1, {TOO_MANY}),): pass", "told"),
        ("", f"wrong = [(1, (2, {TOO_MANY}))]\n    for value, (number, told) in wrong: pass", "told"),
        ("", f"for value, told in {{1: {TOO_MANY}}}.items(): pass", "told"),
        (f"WRONG = {{1: {TOO_MANY}}}", "for value, told in WRONG.items(): pass", "told"),
    ],
)
def test_a_sentence_is_seen_behind_a_name(tmp_path: pathlib.Path, before: str, inside: str, pattern: str) -> None:
    source = tmp_path / "test_tools.py"
    source.write_text(f"{before}\ndef test_tools():\n    {inside or 'pass'}\n    raises(E, match={pattern})\n")
    (sentence,) = sentences(source)
    assert sentence.endswith("this is one too many: 1")
    source.write_text(source.read_text().replace("this is one too many: 1", "one too many: 1"))
    assert list(sentences(source)) == []
