"""Records made of 100,000 videos with 1,152 values each, beside copying the same bytes; and of a million rows.

A million rows have few values each, so that the table is most of the work; beside them, Python's `csv` parses it once.
"""

from __future__ import annotations

import contextlib
import csv
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable

import numpy as np

from benchmarks.data import FOLDER
from benchmarks.measure import Measured, Sample, take_turns, timed
from yt8m.datasets.make_records import RecordsConfig, make

VIDEOS, SIZE, CLASSES = 100_000, 1152, 1000
ROWS, SMALL_SIZE = 1_000_000, 8
_BLOCK = 10_000  # videos that are generated at once
_PIECE = 1 << 20  # bytes that are copied at once


def make_records(repeats: int) -> Measured:
    """Times `yt8m make-records` on a table of ids and labels and a mapped array; the floor copies that array."""
    return _compare(VIDEOS, SIZE, "copying", _copy, repeats)


def read_rows(repeats: int) -> Measured:
    """Times `yt8m make-records` where the table is the larger part of the work; the floor parses the table once."""
    return _compare(ROWS, SMALL_SIZE, "parsing once", _parse, repeats)


def _compare(videos: int, size: int, name: str, floor: Callable[[pathlib.Path], Sample], repeats: int) -> Measured:
    os.makedirs(FOLDER, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as text:
        folder = pathlib.Path(text)
        _write_inputs(folder, videos, size)
        return take_turns(videos, lambda: _make(folder), {name: lambda: floor(folder)}, repeats)


def _write_inputs(folder: pathlib.Path, videos: int, size: int) -> None:
    draw = np.random.default_rng(0)
    array = np.lib.format.open_memmap(folder / "x.npy", "w+", np.float32, (videos, size))
    for start in range(0, videos, _BLOCK):
        array[start : start + _BLOCK] = draw.standard_normal((_BLOCK, size), np.float32)
    labels = draw.integers(CLASSES, size=(videos, 2)).tolist()
    lines = (f"video{number:06d},{first};{second}\n" for number, (first, second) in enumerate(labels))
    (folder / "videos.csv").write_text("id,labels\n" + "".join(lines))


def _make(folder: pathlib.Path) -> Sample:
    config = RecordsConfig(table=str(folder / "videos.csv"), array=str(folder / "x.npy"), out=str(folder / "out"))
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        sample = timed(lambda: make(config))()
    shutil.rmtree(folder / "out")
    return sample


def _copy(folder: pathlib.Path) -> Sample:
    with open(folder / "x.npy", "rb") as source, open(folder / "copy", "wb") as target:
        sample = timed(lambda: shutil.copyfileobj(source, target, _PIECE))()
    (folder / "copy").unlink()
    return sample


def _parse(folder: pathlib.Path) -> Sample:
    with open(folder / "videos.csv", newline="") as file:
        return timed(lambda: sum(1 for _ in csv.reader(file)))()
