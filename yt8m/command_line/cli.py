"""The `yt8m` command: one word chooses the program."""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Sequence

from yt8m.command_line.commands import COMMANDS, GROUPS, call
from yt8m.command_line.program import calling, run_main
from yt8m.errors import UsageError, suggestion

_EXAMPLES = """\
examples:
  yt8m sample-data --out=data
  yt8m train --train_data_pattern='data/video/train/*.tfrecord' --train_dir=runs/first
  yt8m eval --train_dir=runs/first --eval_data_pattern='data/video/validate/*.tfrecord' --run_once --report
  yt8m predict --model=runs/first data/video/test/test0000.tfrecord
  yt8m inference --train_dir=runs/first --input_data_pattern='data/video/test/*.tfrecord' \\
    --output_file=predictions.csv
  yt8m download --partition=2/video/train --mirror=us --shard=1,100 --out=data/2/video/train
  yt8m vocabulary search guitar

`yt8m COMMAND --help` or `yt8m help COMMAND` lists the flags of a command.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `yt8m COMMAND ...`; without a command it prints the overview. Returns the exit status."""
    return run_main("yt8m", _dispatch, argv)


def _dispatch(words: list[str]) -> int:
    if words[:1] == ["help"] and len(words) > 1:
        words = [words[1], "--help", *words[2:]]
    if not words or words[0] in ("--help", "--help=all", "-h", "help"):
        print(overview(), end="")
        return 0
    name, arguments = words[0], words[1:]
    if name == "--version":
        print(importlib.import_module("yt8m").__version__)
        return 0
    if name not in COMMANDS:
        command_names = ", ".join(COMMANDS)
        raise UsageError(f"unknown command {name!r}{suggestion(name, COMMANDS)} (known: {command_names})")
    with calling(f"yt8m {name}"):
        return run_main(name, functools.partial(call, name), arguments)


def overview() -> str:
    """The text that `yt8m` prints without a command."""
    width = max(map(len, COMMANDS)) + 2
    lines = ["usage: yt8m COMMAND [--flag=value ...]", ""]
    for title, group in GROUPS.items():
        entries = [f"  {name:<{width}}{command.purpose}" for name, command in group.items()]
        lines += [f"{title}:", *entries, ""]
    return "\n".join([*lines, _EXAMPLES])


if __name__ == "__main__":
    sys.exit(main())
