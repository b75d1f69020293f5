"""Blocks of README and docs: each is marked, our parsers take its commands, and those for a shell run."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest
from docs.command_blocks import ROOT, Block

from docs import command_blocks
from yt8m.command_line import cli


def _name(page: pathlib.Path) -> str:
    return str(page.relative_to(ROOT))


PAGES_WITH_SHELL = sorted({block.page for block in command_blocks.every_block("sh")})


@pytest.mark.parametrize("page", command_blocks.PAGES, ids=_name)
def test_every_block_has_a_language(page: pathlib.Path) -> None:
    wrong = [str(one) for one in command_blocks.blocks(page) if one.language not in command_blocks.LANGUAGES]
    assert wrong == [], f"expected one of {', '.join(command_blocks.LANGUAGES)}"
    assert command_blocks.indented(page) == []


@pytest.mark.parametrize("block", command_blocks.every_block(*command_blocks.COMMANDS), ids=str)
def test_our_parsers_take_every_command(block: Block, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command_blocks.put(command_blocks.files_of(block.page), tmp_path, monkeypatch)
    found = list(command_blocks.commands(block.text))
    assert found
    for words in found:
        command_blocks.check(words)


@pytest.mark.parametrize("block", command_blocks.every_block("python"), ids=str)
def test_python_compiles(block: Block) -> None:
    compile(block.text, str(block), "exec")


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("yt8m train --batch_sizes=3", "is refused"),
        ("yt8m trian", "is refused"),
        ("python -m yt8m.eval --top_k=none", "is refused"),
        ("python -m examples.cifar10.train --num_gpus=0", "is refused"),
        ("x=--nope\nyt8m inference $x", "is refused"),
        ("make coffee", "no target"),
        ("tensorflow", "what is"),
    ],
)
def test_a_wrong_command_is_noticed(text: str, part: str) -> None:
    (words,) = command_blocks.commands(text)
    with pytest.raises(AssertionError, match=part):
        command_blocks.check(words)


def test_every_command_is_told_somewhere() -> None:
    told = "".join(page.read_text() for page in command_blocks.PAGES)
    assert [name for name in cli.COMMANDS if f"yt8m {name}" not in told] == []


@pytest.mark.long
@pytest.mark.heavy
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("page", PAGES_WITH_SHELL, ids=_name)
def test_the_commands_for_a_shell_run(page: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A page's blocks one after the other, in a folder with the page's Python files and the recipes."""
    (tmp_path / "recipes").symlink_to(ROOT / "recipes")
    for name, code in command_blocks.files_of(page).items():
        (tmp_path / name).write_text(code)
    path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": f"{ROOT}"}
    for block in command_blocks.blocks(page):
        if block.language == "sh":
            words = ["bash", "-euo", "pipefail", "-c", block.text]
            done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
