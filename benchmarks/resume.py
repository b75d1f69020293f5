"""What `--exact_resume` costs: the position in the data of a training, saved and taken up again.

The position holds the shuffle buffer, so its size is that of the records in the buffer.
"""

from __future__ import annotations

import os
import tempfile

from benchmarks.measure import Measured, repeat
from yt8m import graph
from yt8m.config.train_config import DataConfig
from yt8m.graph.inputs import create_input, next_batches
from yt8m.lazy import tf
from yt8m.readers import BatchQueue
from yt8m.runner.saver import Position

_BATCHES = 2


def save_position(config: DataConfig, repeats: int) -> Measured:
    """Saves the position in the stream of a training, and then takes it up."""
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
