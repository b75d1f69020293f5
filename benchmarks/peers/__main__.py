"""One contestant in a process of its own: `python -m benchmarks.peers NAME WORK MODEL PRECISION FOLDER`."""

from __future__ import annotations

import importlib
import pathlib
import sys

from benchmarks.peers.comparison import OURS, Comparison
from benchmarks.peers.contestants import PipeTurns


def main() -> None:
    """Takes turns until standard input ends."""
    name, *words, folder = sys.argv[1:]
    contestant = importlib.import_module(f"benchmarks.peers.{'ours' if name == OURS else 'theirs'}")
    turns = PipeTurns()
    if turns.begin():  # the first contestant stores what the others need
        contestant.take_turns(turns, Comparison(*words), pathlib.Path(folder), name)


if __name__ == "__main__":
    main()
