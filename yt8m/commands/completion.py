"""`yt8m completion bash|zsh|fish`: lets the shell complete commands, flags and the values that have names.

The words are read from the `--help` of the commands, so that they are never out of date.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import re
from collections.abc import Mapping

from yt8m.errors import UsageError

_BASH = """\
_yt8m() {
  local IFS=$'\\n'
  COMPREPLY=($(yt8m completion words "${COMP_LINE:0:COMP_POINT}" 2>/dev/null))
}
complete -o default -o nospace -F _yt8m yt8m
"""
_SCRIPTS = {
    "bash": _BASH,
    "zsh": f"autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n{_BASH}",
    "fish": "complete -c yt8m -f -a '(yt8m completion tokens (commandline -cp | string collect))'\n",
}
_FLAG = re.compile(r"^  --(\[no\])?(\w+)=?", re.MULTILINE)
_NAMES = re.compile(r"^  (model|loss|optimizer)(?:s|es): (.*?)(?=^  \w+: |^\s*$|\Z)", re.MULTILINE | re.DOTALL)
_NAMED_FLAGS = {"model": ("model",), "loss": ("label_loss",), "optimizer": ("optimizer",)}
_CHOICES = re.compile(r"\((\w+(?: or \w+)+)\)")

_HELP = """\
usage: yt8m completion bash|zsh|fish

Prints a script that lets the shell complete yt8m's commands, flags and names. For bash, add to ~/.bashrc:
  source <(yt8m completion bash)
For zsh the same with zsh in ~/.zshrc; for fish:
  yt8m completion fish > ~/.config/fish/completions/yt8m.fish
"""


def main(argv: list[str]) -> int:
    """Prints the script of a shell; the scripts themselves ask for `words` or `tokens`.

    Raises:
      UsageError: no such shell.
    """
    if argv[:1] and argv[0].lstrip("-") in ("help", "h"):
        print(_HELP, end="")
    elif len(argv) == 1 and argv[0] in _SCRIPTS:
        print(_SCRIPTS[argv[0]], end="")
    elif len(argv) == 2 and argv[0] in ("words", "tokens"):
        print("\n".join(candidates(argv[1], is_whole=argv[0] == "tokens")))
    else:
        raise UsageError(f"completion {' '.join(argv)}: expected `yt8m completion bash`, zsh or fish.")
    return 0


def candidates(line: str, is_whole: bool = False) -> list[str]:
    """The words that can complete the last word of `line`.

    Args:
      line: the command line up to the cursor.
      is_whole: whether whole words are returned, as fish wants them. Bash and zsh take `=` as the end of a word:
        they want what comes after it, and a blank at the end of what is complete.
    """
    words = line.split(" ")
    started, before = words[-1], [word for word in words[1:-1] if word]
    end = "" if is_whole else " "
    commands: Mapping[str, object] = importlib.import_module("yt8m.cli").COMMANDS
    if not before:
        return [name + end for name in commands if name.startswith(started)]
    if before[0] not in commands or not started.startswith("-"):
        return []
    name, equals, value = started.lstrip("-").partition("=")
    flags = _flags(before[0])
    if equals:
        head = f"--{name}=" if is_whole else ""
        return [head + choice + end for choice in flags.get(name) or () if choice.startswith(value)]
    found = {flag: end if choices is None else "=" for flag, choices in flags.items() if flag.startswith(name)}
    return [f"--{flag}{mark}" for flag, mark in found.items()]


@functools.cache
def _flags(command: str) -> dict[str, list[str] | None]:
    """{flag: its named values, empty if none are known}; None for a flag that is on or off."""
    text = _help(command)
    found: dict[str, list[str] | None] = {}
    _, *parts = _FLAG.split(text)  # of each flag: whether it is a switch, its name and what follows
    for switch, flag, description in zip(parts[0::3], parts[1::3], parts[2::3], strict=True):
        choices = _CHOICES.search(description)
        found[flag] = None if switch else choices.group(1).split(" or ") if choices else []
    for kind, names in _NAMES.findall(text):
        for flag in _NAMED_FLAGS[kind]:
            if flag in found:
                found[flag] = [name.strip() for name in " ".join(names.split()).split(",")]
    return found


def _help(command: str) -> str:
    """What the command prints for `--help`; empty if it prints nothing."""
    module = importlib.import_module("yt8m.cli").COMMANDS[command].module
    words = ["train", "--help"] if command == "cloud-job" else ["--help"]
    printed = io.StringIO()
    quiet = contextlib.redirect_stderr(io.StringIO())
    with contextlib.redirect_stdout(printed), quiet, contextlib.suppress(SystemExit, UsageError):
        importlib.import_module(module).main(words)
    return printed.getvalue()
