"""The page on troubleshooting quotes messages that the programs really have."""

from __future__ import annotations

import ast
import functools
import re

import pytest
import sources
from docs.command_blocks import ROOT

PAGE = ROOT / "docs/users/troubleshooting.md"


def messages() -> list[str]:
    """The messages of the page's tables: all code in the first column of those that list messages."""
    tables = re.findall(r"^\| message .*?(?:\n\n|\Z)", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    rows = [row for table in tables for row in table.splitlines()[2:] if row]
    return [message for row in rows for message in re.findall(r"`([^`]+)`", row.split("|")[1])]


@functools.cache
def literals() -> list[str]:
    """The texts in the package's code, each with `...` in place of what is put in when it runs."""
    found = []
    for path in sources.files():
        for node in sources.nodes(path):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "..." for part in node.values]
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(re.sub(r"%\w", "...", node.value))
    return found


def is_there(message: str) -> bool:
    """Whether one text of the package has the parts of the message, in their order."""
    parts = [part.strip() for part in message.split("...")]
    pattern = re.compile(".*".join(map(re.escape, parts)), re.DOTALL)
    # Nearly all texts lack the first part, which is soon seen.
    return any(parts[0] in text and pattern.search(text) for text in literals())


@pytest.mark.parametrize("message", messages())
def test_the_message_is_one_of_the_programs(message: str) -> None:
    assert is_there(message), f"no program says {message!r}; quote the message as it is now"


def test_a_message_that_no_program_has_is_noticed() -> None:
    assert len(messages()) > 30
    assert not is_there("no such ... message as this")
