"""The command line of `yt8m bulk`, which processes many shards by Apache Beam; `yt8m.bulk` has the work itself."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Sequence
from typing import Any

from yt8m import extractors, terminal
from yt8m.bulk.bulk_config import COMMANDS, ExtractBulk, with_absolute_paths
from yt8m.command_line import config_flags, program
from yt8m.errors import UsageError, missing_extra, suggestion


def main(argv: list[str]) -> int:
    """Runs `yt8m bulk infer`, `rank`, `eval` or `extract`; returns the exit status, which is 2 if `argv` is empty.

    Args:
      argv: the words after `yt8m bulk`: the name of the command, its flags, and after `--` options of Beam.

    Raises:
      UsageError: a flag is wrong, Beam is not installed, there is no such model or data, or the output folder holds
        other files.
      RunError: another job works in the output folder, a shard is damaged, or the workers died repeatedly.
    """
    words, beam_words = _split_at_dashes(argv)
    name = words[0] if words else ""
    if name in ("--help", "--help=all", "-h", ""):
        print(_overview(), end="")
        return 0 if name else 2
    if name not in COMMANDS:
        command_names = ", ".join(COMMANDS)
        raise UsageError(f"unknown command yt8m bulk {name}{suggestion(name, COMMANDS)} (known: {command_names})")
    command = COMMANDS[name]
    config: Any
    settings: dict[str, Any] = {}
    program = (f"yt8m bulk {name}", command.purpose, words[1:])
    if command.config is ExtractBulk:
        config, settings = config_flags.read_with(ExtractBulk, *program, extractors, "extractors")
    else:
        config = config_flags.read(command.config, *program)
    if importlib.util.find_spec("apache_beam") is None:
        raise missing_extra(f"yt8m bulk {name}", "apache-beam", "beam")
    with terminal.json_output(getattr(config, "json", False)):
        if isinstance(config, ExtractBulk):
            return int(_import_bulk_module("extraction").run(config, settings, beam_words))
        return int(_import_bulk_module("jobs").run(name, with_absolute_paths(config), beam_words))


def _import_bulk_module(name: str) -> Any:
    """Imports the module `yt8m.bulk.NAME`, which imports Beam, and undoes Beam's changes to the log."""
    handlers = list(logging.root.handlers)
    logging.disable(logging.WARNING)  # hides Beam's warnings about its optional packages
    try:
        return importlib.import_module(f"yt8m.bulk.{name}")
    finally:
        logging.disable(logging.NOTSET)
        logging.root.handlers[:] = handlers  # removes the handler that Beam adds, which would repeat each line
        program.set_up_log()


def _split_at_dashes(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """Returns the words before the first `--`, and the words after it; the latter are empty if there is no `--`."""
    end = argv.index("--") if "--" in argv else len(argv)
    return list(argv[:end]), list(argv[end + 1 :])


def _overview() -> str:
    lines = [f"  yt8m bulk {name:<9}{command.purpose}" for name, command in COMMANDS.items()]
    return "\n".join(
        [
            "usage: yt8m bulk COMMAND --model=RUN --data='shards*' --out=FOLDER [-- options of Apache Beam]",
            "       yt8m bulk extract --videos=TABLE --out=FOLDER [-- options of Apache Beam]",
            "",
            *lines,
            "",
            "`yt8m bulk COMMAND --help` lists the flags of a command.\n",
        ]
    )
