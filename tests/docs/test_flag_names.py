"""The table of docs/users/commands.md: each command calls a model, records, videos and its output as the page says."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence
from typing import Any

import pytest

from yt8m.command_line import cli, config_flags
from yt8m.command_line.flag_parsing import Flag
from yt8m.extractors.picture_models import OnnxModel

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/users/commands.md"
PUBLISHED = {"train", "eval", "inference"}
# Names that only the published programs have, besides the folder of a run.
PUBLISHED_NAMES = {
    "train_dir",
    "train_data_pattern",
    "eval_data_pattern",
    "input_data_pattern",
    "output_file",
    "eval_dir",
}


def rows(columns: int) -> dict[str, list[list[str]]]:
    """{command: the flags in each of its cells} of the table with this number of columns."""
    found = {}
    for line in PAGE.read_text().splitlines():
        cells = [re.findall(r"`([^`]+)`", cell) for cell in line.strip("|").split("|")]
        if line.startswith("| `") and len(cells) == columns:
            flags_of_cells = [[name.removeprefix("--") for name in cell] for cell in cells[1:]]
            found |= dict.fromkeys(cells[0], flags_of_cells)
    return found


TABLE, FORMER = rows(5), rows(2)
MODEL_NAMES = {"import-checkpoint", "audit"}  # its --model is the name of a class


class Read(Exception):  # noqa: N818 - it is no error
    """The flags of a command are known."""


def flags_of_command(command: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Flag]:
    """{name: flag} of `yt8m COMMAND`, which is stopped before it reads its command line."""
    known: list[Flag] = []

    def take(program_flags: Sequence[Flag], *_: object) -> None:
        known.extend(program_flags)
        raise Read

    monkeypatch.setattr(config_flags, "parse", take)
    name, *words = command.split()
    with pytest.raises(Read):
        cli.call(name, words)
    return {flag.name: flag for flag in known}


@pytest.mark.parametrize("command", TABLE)
def test_a_command_has_the_flags_of_its_row_and_shows_no_other_name(
    command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = flags_of_command(command, monkeypatch)
    named = [name for cell in TABLE[command] for name in cell]
    assert [name for name in named if name not in known] == []
    if command in PUBLISHED:
        return
    assert known.keys() & PUBLISHED_NAMES == set()
    model, records, videos, output = TABLE[command]
    assert (known.keys() & {"model"}, known.keys() & {"data"}) == (
        set(model),
        set(records) & {"data"},
    ) or command in MODEL_NAMES
    assert (known.keys() & {"videos"}, known.keys() & {"out"}) == (
        set(videos),
        {name for name in output if name == "out"},
    )
    aliases = {alias for flag in known.values() for alias in flag.aliases}
    assert aliases - {"train_dir"} == {name for cell in FORMER.get(command, []) for name in cell}
    assert ("train_dir" in aliases) == (model == ["model"])


def test_every_command_that_takes_or_writes_something_has_a_row() -> None:
    without_files = {"cloud-job", "doctor", "completion"}  # the first has the flags of train
    assert {command.split()[0] for command in TABLE} == cli.COMMANDS.keys() - without_files
    assert FORMER.keys() <= TABLE.keys()


# A page names a default as "`--top_k` (20)", "`--stall_timeout` seconds (600)" or "(`--similarity`, 0.85".
_DEFAULT = re.compile(r"`--(\w+)`(?: \w+)? \(([\d.]+)[;)]|\(`--(\w+)`, ([\d.]+)")


def test_the_defaults_that_pages_name_are_those_of_the_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults: dict[str, set[Any]] = {"picture_size": {OnnxModel.picture_size}}
    for command in TABLE:
        for flag in flags_of_command(command, monkeypatch).values():
            defaults.setdefault(flag.name, set()).add(flag.default)
    named = [match.groups("") for page in PAGE.parent.glob("*.md") for match in _DEFAULT.finditer(page.read_text())]
    assert len(named) > 8
    wrong = [words for words in named if float(words[1] + words[3]) not in defaults[words[0] + words[2]]]
    assert wrong == []
