"""`python -m benchmarks.saving [MB ...]`: the time of a save, and the part of it that waits for the disk."""

from __future__ import annotations

import os
import pathlib
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from yt8m.lazy import tf
from yt8m.runner.saver import RunSaver

_SIZES, _SAVES = (1, 18, 100), 9  # megabytes of weights (LogisticModel of YouTube-8M has 18), and saves of each size


class SaveTime(NamedTuple):
    """Seconds of one save: all of it, and those within `fsync`."""

    whole: float
    waiting: float


def time_saves(megabytes: int, folder: pathlib.Path, saves: int = _SAVES) -> list[SaveTime]:
    """Saves random weights `saves` times into `folder`, keeping one checkpoint; the first save is not timed."""
    waiting: list[float] = []
    sync = os.fsync
    times = []
    with tf.Graph().as_default(), tf.Session() as session:
        values = np.random.default_rng(0).normal(size=megabytes * 250_000).astype(np.float32)
        weights = tf.get_variable("weights", values.shape)
        saver = RunSaver(str(folder), tf.train.Saver([weights]), keep=1)
        session.run(tf.assign(weights, values))
        os.fsync = _timed(sync, waiting)
        try:
            for step in range(saves + 1):
                waiting.clear()
                begun = time.perf_counter()
                saver.save(session, step)
                times.append(SaveTime(time.perf_counter() - begun, sum(waiting)))
        finally:
            os.fsync = sync
    return times[1:]


def _timed(sync: Callable[[int], None], seconds: list[float]) -> Callable[[int], None]:
    def timed(descriptor: int) -> None:
        begun = time.perf_counter()
        sync(descriptor)
        seconds.append(time.perf_counter() - begun)

    return timed


def main() -> None:
    """Prints a line for each size."""
    print("weights in MB   seconds a save (median, range)   of these for the disk (median)")
    for megabytes in list(map(int, sys.argv[1:])) or _SIZES:
        with tempfile.TemporaryDirectory(dir=".") as folder:
            times = time_saves(megabytes, pathlib.Path(folder))
        whole = [save.whole for save in times]
        spread = f"{statistics.median(whole):.3f} ({min(whole):.3f} to {max(whole):.3f})"
        print(f"{megabytes:13d}   {spread:30s}   {statistics.median(save.waiting for save in times):.3f}")


if __name__ == "__main__":
    main()
