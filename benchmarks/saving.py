"""The time of a save and of the position in the data that `--exact_resume` saves, and what of it waits for the disk."""

from __future__ import annotations

import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.measure import Measured, repeat, take_turns, timed
from yt8m import graph
from yt8m.config.data_config import DataConfig
from yt8m.graph.inputs import create_input, next_batches
from yt8m.lazy import tf
from yt8m.readers import BatchQueue
from yt8m.runner.saver import Position, RunSaver

_BATCHES = 2


def save(megabytes: int, repeats: int) -> Measured:
    """Saves random weights of this size, and keeps one checkpoint."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        return time_saves(megabytes, pathlib.Path(folder), repeats)


def time_saves(megabytes: int, folder: pathlib.Path, repeats: int) -> Measured:
    """Saves random weights into `folder`; the note has the seconds within `fsync`."""
    with tf.Graph().as_default(), tf.Session() as session, _timed_syncs() as seconds:
        values = np.random.default_rng(0).normal(size=megabytes * 250_000).astype(np.float32)
        weights = tf.get_variable("weights", values.shape)
        saver = RunSaver(str(folder), tf.train.Saver([weights]), keep=1)
        session.run(tf.assign(weights, values))
        waiting: list[float] = []

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

    def timed_sync(fd: Any) -> None:
        begun = time.perf_counter()
        sync(fd)
        seconds.append(time.perf_counter() - begun)

    os.fsync = timed_sync
    try:
        yield seconds
    finally:
        os.fsync = sync


def save_position(config: DataConfig, repeats: int) -> Measured:
    """Saves the position in the stream of a training, and then takes it up.

    The position holds the shuffle buffer, so its size is that of the records in the buffer.
    """
    inputter = BatchQueue.for_config(config, "train")
    with tf.Graph().as_default(), tempfile.TemporaryDirectory() as folder:
        iterator, ops = create_input(inputter, config.batch_size)
        (batch,), ops = next_batches(iterator, 1, ops)
        examples = tf.shape(batch.video_ids)
        position = Position(ops, inputter.files(), {})
        with _started(ops, inputter) as session:
            for _ in range(_BATCHES):
                session.run(examples)
            saved = repeat(lambda: position.save(session, folder, 1), 1, repeats)
            expected = session.run(examples)
        saved.notes.append(f"{sum(entry.stat().st_size for entry in os.scandir(folder)) / 1e6:.1f} MB a checkpoint")
        with _started(ops, inputter) as session:
            restored = repeat(lambda: position.start(session, folder, 1), 1, repeats)
            assert (session.run(examples) == expected).all()
        saved.notes.append(f"taken up in {1 / restored.summary()['rate']['median']:.2f} s")
        return saved


def _started(ops: graph.InputOps, inputter: BatchQueue) -> tf.Session:
    session = tf.Session()
    session.run(ops.initializer, {ops.files: inputter.files()})
    return session
