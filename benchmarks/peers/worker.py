"""One contestant in a process of its own: `python -m benchmarks.peers.worker NAME ROW FOLDER`."""

from __future__ import annotations

import importlib
import pathlib
import sys

from benchmarks.peers.rows import ROWS
from benchmarks.peers.turns import Turns


def main() -> None:
    """Takes turns until standard input ends."""
    name, row_name, folder = sys.argv[1:]
    row, turns = ROWS[row_name], Turns()
    if name == "yt8m":
        ours = importlib.import_module("benchmarks.peers.ours")
        work = ours.step if row.work == "step" else ours.from_files
        work(turns, row, pathlib.Path(folder))
    else:
        importlib.import_module("benchmarks.peers.theirs").take_turns(turns, row, pathlib.Path(folder), name)


if __name__ == "__main__":
    main()
