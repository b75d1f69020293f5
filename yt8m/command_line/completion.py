"""`yt8m completion bash|zsh|fish`: prints a script with which the shell completes commands, flags and their values.

Flags and values are parsed from the output of `yt8m COMMAND --help=all`, so they are always up to date.
"""

from __future__ import annotations

import contextlib
import functools
import io
import re

from yt8m.command_line.cli import COMMANDS, call
from yt8m.command_line.flag_parsing import CHOOSE
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
# Parts of a help text: the start of a flag's entry, a list of names such as models, and the choices of a flag.
_FLAG = re.compile(r"^  --(\[no\])?(\w+)=?", re.MULTILINE)
_NAMES = re.compile(rf"^  ({'|'.join(CHOOSE)}): (.*?)(?=^  \w+: |^\s*$|\Z)", re.MULTILINE | re.DOTALL)
_CHOICES = re.compile(r"\((\w+(?:\s+or\s+\w+)+)\)")

# {command: words that call each of its subcommands}. The flags of all subcommands together are offered to the shell.
_SUBCOMMANDS = {"cloud-job": (["train"],), "bulk": (["infer"], ["rank"], ["eval"], ["extract"])}

_HELP = """\
usage: yt8m completion bash|zsh|fish

Prints a script that lets the shell complete yt8m's commands, flags and names. For bash, add to ~/.bashrc:
  source <(yt8m completion bash)
For zsh the same with zsh in ~/.zshrc; for fish:
  yt8m completion fish > ~/.config/fish/completions/yt8m.fish
"""


def main(argv: list[str]) -> int:
    """Prints the script for a shell, or the words that complete a command line; returns the exit status.

    Args:
      argv: the name of the shell; or, if such a script calls this, `words` or `tokens` (see `_SCRIPTS`) and the command
        line up to the cursor.

    Raises:
      UsageError: the words name no supported shell.
    """
    if argv[:1] and argv[0].lstrip("-").partition("=")[0] in ("help", "h"):
        print(_HELP, end="")
    elif len(argv) == 1 and argv[0] in _SCRIPTS:
        print(_SCRIPTS[argv[0]], end="")
    elif len(argv) == 2 and argv[0] in ("words", "tokens"):
        print("\n".join(candidates(argv[1], is_whole=argv[0] == "tokens")))
    else:
        raise UsageError(
            f"`yt8m {' '.join(['completion', *argv])}` is not complete or not known; expected "
            "`yt8m completion bash`, zsh or fish."
        )
    return 0


def candidates(line: str, is_whole: bool = False) -> list[str]:
    """Returns the words that can complete the last word of a command line.

    Args:
      is_whole: whether to return whole words, as fish expects. Bash and zsh split words at `=`: for them, the result
        has only the text after `=`, and a blank after each complete word.
    """
    words = line.split(" ")
    started, before = words[-1], [word for word in words[1:-1] if word]
    end = "" if is_whole else " "
    if not before:
        return [name + end for name in COMMANDS if name.startswith(started)]
    if before[0] not in COMMANDS or not started.startswith("-"):
        return []
    name, equals, value = started.lstrip("-").partition("=")
    flags = _flags_of_command(before[0])
    if equals:
        head = f"--{name}=" if is_whole else ""
        return [head + choice + end for choice in flags.get(name) or () if choice.startswith(value)]
    endings = {flag: end if choices is None else "=" for flag, choices in flags.items() if flag.startswith(name)}
    return [f"--{flag}{mark}" for flag, mark in endings.items()]


@functools.cache
def _flags_of_command(command: str) -> dict[str, list[str] | None]:
    """{flag of the command: its values}; [] if the values are not known, None for a flag that takes no value."""
    text = _help_text(command)
    choices_of: dict[str, list[str] | None] = {}
    _, *groups = _FLAG.split(text)  # three parts per flag: "[no]" if boolean, name, description
    for switch, flag, description in zip(groups[0::3], groups[1::3], groups[2::3], strict=True):
        choices = _CHOICES.search(description)
        choices_of[flag] = None if switch else choices.group(1).split()[::2] if choices else []
    for kind, names in _NAMES.findall(text):
        if CHOOSE[kind] in choices_of:
            choices_of[CHOOSE[kind]] = [name.split()[0] for name in " ".join(names.split()).split(",")]
    return choices_of


def _help_text(command: str) -> str:
    """The `--help=all` text of the command; empty if it prints none."""
    printed = io.StringIO()
    for words in _SUBCOMMANDS.get(command, ([],)):
        quiet = contextlib.redirect_stderr(io.StringIO())
        with contextlib.redirect_stdout(printed), quiet, contextlib.suppress(SystemExit, UsageError):
            call(command, [*words, "--help=all"])
    return printed.getvalue()
