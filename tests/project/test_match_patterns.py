"""What a test expects of a message are the facts, such as a name, a number or a flag, so that sentences can improve."""

from __future__ import annotations

import ast
import itertools
import pathlib
import re
from collections.abc import Iterator

from sources import ROOT

MOST_WORDS = 4  # such as `it is cut short`: what tells a refusal from others of the same call


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


def parameters(function: ast.FunctionDef, name: str) -> Iterator[ast.expr]:
    """The values of a parameter of a test, in the tables of its decorators."""
    for table in function.decorator_list:
        if not isinstance(table, ast.Call) or len(table.args) < 2:
            continue
        names = [literal_text(part) for part in getattr(table.args[0], "elts", [])]
        for row in ast.walk(table.args[1]) if name in names else ():
            cells = row.args if isinstance(row, ast.Call) else getattr(row, "elts", [])
            if len(cells) == len(names):
                yield cells[names.index(name)]


def patterns(function: ast.FunctionDef) -> Iterator[ast.expr]:
    """The patterns of a function: its arguments `match`, or the parameters that they name."""
    for argument in arguments(function):
        if isinstance(argument, ast.Name):
            yield from parameters(function, argument.id)
        yield argument


def sentences(path: pathlib.Path) -> Iterator[str]:
    """The patterns of a file that fix a sentence."""
    content = path.read_text(encoding="utf-8")
    for function in ast.walk(ast.parse(content)) if "match=" in content else ():
        for pattern in patterns(function) if isinstance(function, ast.FunctionDef) else ():
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
