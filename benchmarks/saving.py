"""The time of a save, and the part of it that waits for the disk."""

from __future__ import annotations

import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from benchmarks.measure import Measured, take_turns, timed
from benchmarks.rows import Measure
from yt8m.lazy import tf
from yt8m.runner.saver import RunSaver


def save(megabytes: int) -> Measure:
    """The `measure` of a row that saves random weights of this size, and keeps one checkpoint."""

    def measure(repeats: int) -> Measured:
        with tempfile.TemporaryDirectory(dir=".") as folder:
            return time_saves(megabytes, pathlib.Path(folder), repeats)

    return measure


def time_saves(megabytes: int, folder: pathlib.Path, repeats: int) -> Measured:
    """Saves random weights into `folder`; the note has the seconds within `fsync`."""
    with tf.Graph().as_default(), tf.Session() as session, _timed_syncs() as seconds:
        values = np.random.default_rng(0).normal(size=megabytes * 250_000).astype(np.float32)
        weights = tf.get_variable("weights", values.shape)
        saver = RunSaver(str(folder), tf.train.Saver([weights]), keep=1)
        session.run(tf.assign(weights, values))
        waiting = []

        def save_next() -> None:
            seconds.clear()
            saver.save(session, len(waiting))
            waiting.append(sum(seconds))

        measured = take_turns(1, timed(save_next), {}, repeats)
    measured.notes.append(f"{statistics.median(waiting[1:]):.3f} s of it wait for the disk")
    return measured


@contextmanager
def _timed_syncs() -> Iterator[list[float]]:
    """The seconds of each `fsync` within the context."""
    sync, seconds = os.fsync, list[float]()

    def timed_sync(descriptor: int) -> None:
        begun = time.perf_counter()
        sync(descriptor)
        seconds.append(time.perf_counter() - begun)

    os.fsync = timed_sync
    try:
        yield seconds
    finally:
        os.fsync = sync
