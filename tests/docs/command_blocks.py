"""Fenced blocks of the pages, and the commands in them: run, or taken by our own parsers without running."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import io
import itertools
import pathlib
import re
import runpy
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import pytest

from yt8m.command_line import cli, cloud_job, config_flags, flag_defaults, flags, model_checks
from yt8m.config import data_fit
from yt8m.records.opened_data import open_data

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "examples/cifar10/README.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
COMMANDS = ("sh", "console")
LANGUAGES = (*COMMANDS, "python", "text", "json", "yaml")
# Programs that are not ours, and what a shell brings along.
_OTHERS = {
    "gcloud",
    "docker",
    "npm",
    "pip",
    "git",
    "export",
    "cd",
    "mkdir",
    "cat",
    "head",
    "source",
    "curl",
    "tensorboard",
    "kill",
    "wait",
}
_SCRIPTS = {"train.py": "train", "eval.py": "eval", "inference.py": "inference"}
_FENCE = re.compile(r"^```(.*)$")
_JOINTS = {"&&", "||", "|", ";", "&"}


class Block(NamedTuple):
    """One block: the page it is on, the line of its fence, the language and the text."""

    page: pathlib.Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


class Parsed(BaseException):
    """Our parser has read a command line to its end: the command is not to run."""


def blocks(page: pathlib.Path) -> list[Block]:
    """All fenced blocks of a page."""
    found, start, language, inside = [], 0, "", []
    for number, line in enumerate(page.read_text().splitlines(), start=1):
        fence = _FENCE.match(line)
        if fence and not start:
            start, language, inside = number, fence.group(1).strip(), []
        elif fence:
            found.append(Block(page, start, language, "\n".join(inside) + "\n"))
            start = 0
        elif start:
            inside.append(line)
    assert not start, f"{page.name}:{start}: the block has no end"
    return found


def files_of(page: pathlib.Path) -> dict[str, str]:
    """The Python files that the page says to make: In `name.py`, or Save it as `name.py`, followed by the block."""
    pattern = r"(?:In|Save \w+ as) `(\w+\.py)`[^\n]*:\n\n```python\n(.*?)^```"
    return dict(re.findall(pattern, page.read_text(), re.DOTALL | re.MULTILINE))


def put(files: Mapping[str, str], folder: pathlib.Path, patch: pytest.MonkeyPatch) -> None:
    """Writes them and lets them be imported; modules of another page with their names are forgotten."""
    for name, code in files.items():
        (folder / name).write_text(code)
        patch.delitem(sys.modules, name.removesuffix(".py"), raising=False)
    patch.syspath_prepend(folder)


def every_block(*languages: str) -> list[Block]:
    """Those of all pages in some languages."""
    return [block for page in PAGES for block in blocks(page) if block.language in languages]


def indented(page: pathlib.Path) -> list[str]:
    """Code blocks by indentation, which no language marks; the text of a list is none."""
    outside = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    paragraphs = re.split(r"\n\s*\n", outside)
    return [text for text in paragraphs if text.startswith("    ")]


def commands(text: str) -> Iterator[list[str]]:
    """The words of each command line of a block, without comments; `$name` is replaced after a line `name=value`."""
    values: dict[str, str] = {}
    for line in _whole_lines(text):
        for name, value in values.items():
            line = re.sub(rf"\${name}\b", value, line)
        told = shlex.split(line, comments=True)
        for is_joint, group in itertools.groupby(told, _JOINTS.__contains__):
            words = list(group)
            given = dict(word.split("=", 1) for word in itertools.takewhile(re.compile(r"\w+=").match, words))
            if len(given) == len(words):
                values |= given
            elif not is_joint:
                yield words[len(given) :]


def _whole_lines(text: str) -> Iterator[str]:
    """Lines of a shell: what ends in a backslash or within quotes goes on in the next one."""
    begun = ""
    for line in text.replace("\\\n", " ").splitlines():
        begun += f"{line}\n"
        try:
            shlex.split(begun, comments=True)
        except ValueError:
            continue
        yield begun
        begun = ""
    assert not begun, f"a quote is not closed: {begun}"


def run(text: str) -> str:
    """Runs the commands of a block in this process and folder; returns what they print, log lines included."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        for words in commands(text):
            if words[0] == "python":
                runpy.run_path(words[1])
            else:
                assert cli.main(words[1:]) == 0, printed.getvalue()
    return printed.getvalue()


def check(words: list[str]) -> None:
    """Fails where a command is not one that could run."""
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        wanted = [word for word in words[1:] if "=" not in word]
        assert set(wanted) <= set(targets), f"make has no target {wanted}"
    elif words[0] == "yt8m":
        _parse(words[1:])
    elif words[0] == "python":
        _check_python(words[1:])
    else:
        assert words[0] in _OTHERS, f"what is {words[0]}?"


def _check_python(words: list[str]) -> None:
    if words[0] != "-m":
        assert words[0] in _SCRIPTS or importlib.util.find_spec(words[0].removesuffix(".py")), words[0]
        if words[0] in _SCRIPTS:
            _parse([_SCRIPTS[words[0]], *words[1:]])
    elif words[1].startswith("yt8m."):
        names = {command.function.partition(":")[0]: name for name, command in cli.COMMANDS.items()}
        _parse([names[words[1]], *words[2:]])
    elif words[1] == "examples.sweep":
        _parse(["train", *words[4:]])  # after the folder and the number of trials
    elif words[1] == "examples.winners":
        inspect.signature(importlib.import_module(words[1]).main).bind(*words[2:])
    elif words[1].startswith("examples."):
        _parse(words[2:], importlib.import_module(words[1]).main)
    else:
        assert words[1] in ("build", "venv") or importlib.util.find_spec(words[1]), f"no module {words[1]}"


def _parse(words: list[str], main: Callable[[list[str]], int] = cli.main) -> None:
    """The command's own parser reads the words; neither files nor models are looked for."""
    given = [word for word in words if word not in (">", "<") and not word.startswith("2>")]
    with pytest.MonkeyPatch.context() as patch:
        for name in (
            "read",
            "read_with",
            "train_config",
            "training",
            "evaluation",
            "inference",
            "eval_config",
            "inference_config",
            "import_config",
            "cache_config",
            "audit_config",
        ):
            patch.setattr(flags, name, _then_stop(getattr(flags, name)))
            if hasattr(config_flags, name):
                patch.setattr(config_flags, name, getattr(flags, name))
        patch.setattr(cloud_job, "_print_job", _then_stop(lambda *_: 0))
        patch.setattr(flags, "open_data", lambda *_, **__: open_data(None))
        patch.setattr(data_fit, "open_for", lambda *_, **__: open_data(None))
        patch.setattr(flags, "start_named_in", lambda _: flag_defaults.Start())
        patch.setattr(model_checks, "check_level", lambda *_: None)  # the records, which are not there, give the level
        patch.setenv("YT8M_DEBUG", "1")
        patch.chdir(ROOT)
        try:
            status = main(given)
        except Parsed:
            return
        assert status == 0, f"{shlex.join(words)} is refused"


def _then_stop(parse: Any) -> Any:
    def parsed(*given: Any, **named: Any) -> Any:
        value = parse(*given, **named)
        if "files_are_here" in named:  # a job in the cloud: its own flags come next
            return value
        raise Parsed

    return parsed
