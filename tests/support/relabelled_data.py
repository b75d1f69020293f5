"""Records whose labels are corrected, and tables of decisions, for tests."""

from __future__ import annotations

import pathlib

import numpy as np
from own_clips import write_table

from yt8m.command_line import cli

HEADER = "rank,video,class,kind,chance,start,end,decision"


def decide(folder: pathlib.Path, *rows: str) -> str:
    (folder / "decisions.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    return str(folder / "decisions.csv")


def clips(folder: pathlib.Path, level: str, *flags: str) -> pathlib.Path:
    """Records of eight videos, of 3 to 10 frames, in two splits; returns the folder of the level."""
    rows = []
    for number in range(8):
        np.save(folder / f"{number}.npy", np.random.default_rng(number).normal(size=(3 + number, 4)).astype(np.float32))
        label = ("weld", "weld", "cut;weld")[number % 3]
        rows.append((f"v{number}", f"{number}.npy", label, "train" if number < 6 else "test"))
    table = write_table(folder / "clips.csv", rows, "id,path,labels,split")
    words = [f"--table={table}", f"--out={folder}/data", f"--level={level}", "--shards=2", *flags]
    assert cli.call("make-records", words) == 0
    return folder / "data" / level


def films(folder: pathlib.Path, *flags: str) -> str:
    """A table of spans in two videos of 60 frames, and flags that make records of it."""
    for name in "ab":
        np.save(folder / f"{name}.npy", np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32))
    rows = [("a", "a.npy", "weld", 10, 30, "train"), ("b", "b.npy", "cut", 0, 20, "train")]
    table = write_table(folder / "spans.csv", rows, "video,path,label,start,end,split")
    words = [f"--table={table}", f"--out={folder}/data", "--level=frame", "--shards=1", "--rows=spans", *flags]
    assert cli.call("make-records", words) == 0
    return table
