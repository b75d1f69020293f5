"""The command `yt8m ensemble`: prediction files, or several runs, become one."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from yt8m import program
from yt8m.commands.ensemble import files
from yt8m.config import flags
from yt8m.program import run_main

_PURPOSE = "Joins the predictions of several models, or makes one exported model of several runs."
_LISTS = ("predictions", "runs", "weights")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command on `argv`, by default this process' own; returns the exit status."""
    return run_main("yt8m ensemble", _run, argv)


def _run(words: list[str]) -> int:
    config = flags.read(files.EnsembleConfig, "yt8m ensemble", _PURPOSE, _joined(words))
    if config.predictions:
        return files.run(config)
    program.set_up_log()
    # Here, so that joining files does without the graph code.
    from yt8m.commands.ensemble.runs import export

    export(config)
    return 0


def _joined(words: Sequence[str]) -> list[str]:
    """`--predictions A B` as `--predictions=A,B`: the lists may be written with blanks too."""
    found: list[str] = []
    for word in words:
        name, equals, text = found[-1].lstrip("-").partition("=") if found else ("", "", "")
        if word.startswith("-") or name not in _LISTS:
            found.append(word)
        else:
            found[-1] = f"{found[-1]},{word}" if equals and text else f"--{name}={word}"
    return found


if __name__ == "__main__":
    sys.exit(main())
