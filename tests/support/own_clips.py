"""Generated videos of three classes, an array of features for each; tables of them, and readers of their records."""

from __future__ import annotations

import csv
import hashlib
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from yt8m.records import shards

Made = dict[str, tuple[str, shards.Record]]

NAMES = ("cat", "dog", "bird")


def write_table(path: pathlib.Path, rows: Sequence[Sequence[Any]], header: str = "id,path,labels") -> str:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header.split(","), *rows])
    return str(path)


def frames_of(number: int) -> np.ndarray:
    """The frames of video `number`, float32 [T, 16] with T from 3 to 8. One of the 16 values shows the class."""
    stream = np.random.default_rng(number)
    frames = stream.normal(size=(int(stream.integers(3, 9)), 16)).astype(np.float32)
    frames[:, number % 3] += 3
    return frames


def labels_of(number: int) -> list[str]:
    """The labels of video `number`: one class, and for every tenth video also the class `cat`."""
    own = NAMES[number % 3]
    return [own] if number % 10 else sorted({own, "cat"})


def write_clips(folder: pathlib.Path) -> str:
    """Writes clips.csv and features/*.npy of 300 videos; returns the path of the table."""
    (folder / "features").mkdir()
    for number in range(300):
        np.save(folder / "features" / f"{number}.npy", frames_of(number))
    rows = [(f"clip {number:03}", f"features/{number}.npy", ";".join(labels_of(number))) for number in range(300)]
    return write_table(folder / "clips.csv", rows)


def read(folder: pathlib.Path) -> Made:
    """Reads {id: (split, record)} from the shards of all splits in a folder."""
    found = {}
    for path in sorted(folder.glob("*/*.tfrecord")):
        for payload in shards.read_shard(str(path)):
            record = shards.parse(payload)
            assert record.id() not in found
            found[record.id().decode()] = path.parent.name, record
    return found


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}


def split_of(text: str) -> str:
    """The split of a video with this id, computed as the documentation defines it."""
    share = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=16).digest()[:8], "big") / 2**64
    return "train" if share < 0.8 else "validate" if share < 0.9 else "test"
