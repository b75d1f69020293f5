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


def sentences(path: pathlib.Path) -> Iterator[str]:
    """The arguments `match` of a file that fix a sentence."""
    content = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(content)) if "match=" in content else ():
        if isinstance(node, ast.keyword) and node.arg == "match":
            text = literal_text(node.value)
            if words_in_a_row(text) > MOST_WORDS:
                yield f"{path.name}, line {node.value.lineno}: {text}"


def test_no_pattern_fixes_a_sentence() -> None:
    found = [sentence for path in sorted((ROOT / "tests").rglob("*.py")) for sentence in sentences(path)]
    assert found == [], "write .* in place of the words between the facts, and keep one or two that tell the refusal"


def test_a_sentence_is_seen(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "test_tools.py"
    source.write_text(
        'raises(E, match=r"^--out=a: no file of this name.*5")\n'
        'raises(E, match=f"{path}, line {number}: it is cut short: .*again")\n'
    )
    assert list(sentences(source)) == ["test_tools.py, line 1: ^--out=a: no file of this name.*5"]
