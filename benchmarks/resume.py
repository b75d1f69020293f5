"""What `--exact_resume` costs: `python -m benchmarks.resume` prints it for videos and for frames.

The position in the data holds the shuffle buffer, so its size is that of the records held there.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable

from benchmarks import runs
from yt8m import graph
from yt8m.config.train_config import DataConfig
from yt8m.graph.inputs import create_input, next_batches
from yt8m.lazy import tf
from yt8m.readers import BatchQueue
from yt8m.runner.saver import Position

_REPEATS, _BATCHES = 3, 2


def main() -> None:
    """Prints a line for each level."""
    for level, config in (("videos", runs.video_data()), ("frames", runs.frame_data())):
        size, save, restore = measure(config)
        print(f"{level}: {size / 1e6:.1f} MB a checkpoint, saved in {save:.2f} s, taken up in {restore:.2f} s")


def measure(config: DataConfig) -> tuple[int, float, float]:
    """(bytes, seconds to save, seconds to restore) of a position in the stream of a training."""
    inputter = BatchQueue.for_config(config, "train")
    with tf.Graph().as_default(), tempfile.TemporaryDirectory() as folder:
        iterator, ops = create_input(inputter, config.batch_size)
        (batch,), ops = next_batches(iterator, 1, ops)
        examples = tf.shape(batch.video_ids)
        position = Position(ops, inputter.files(), {})
        with _started(ops, inputter) as session:
            for _ in range(_BATCHES):
                session.run(examples)
            save = _median(lambda: position.save(session, folder, 1))
            expected = session.run(examples)
        size = sum(entry.stat().st_size for entry in os.scandir(folder))
        with _started(ops, inputter) as session:
            restore = _median(lambda: position.start(session, folder, 1))
            assert (session.run(examples) == expected).all()
    return size, save, restore


def _started(ops: graph.InputOps, inputter: BatchQueue) -> tf.Session:
    session = tf.Session()
    session.run(ops.initializer, {ops.files: inputter.files()})
    return session


def _median(work: Callable[[], None]) -> float:
    seconds = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


if __name__ == "__main__":
    main()
