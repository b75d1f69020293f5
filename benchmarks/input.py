"""Files to batches with nothing behind them."""

from __future__ import annotations

from benchmarks import runs
from benchmarks.measure import Clock, Measured
from yt8m.config import DataConfig
from yt8m.lazy import tf
from yt8m.readers import BatchQueue, reader_for


def video_shuffled(repeats: int) -> Measured:
    """As training reads videos."""
    return _read(BatchQueue.for_config(runs.video_data(), "train"), 100, repeats)


def video_in_order(repeats: int) -> Measured:
    """As evaluation and inference do."""
    return _read(_in_order(runs.video_data()), 100, repeats)


def frame_shuffled(repeats: int) -> Measured:
    """As training reads frames."""
    return _read(BatchQueue.for_config(runs.frame_data(), "train"), 30, repeats)


def _in_order(config: DataConfig) -> BatchQueue:
    return BatchQueue(reader_for(config), config.data_pattern, config.batch_size, num_epochs=None)


def _read(queue: BatchQueue, steps: int, repeats: int) -> Measured:
    """Times blocks of `steps` batches."""
    measured = Measured(queue.batch_size, [], [])
    with tf.Graph().as_default(), tf.Session() as session:
        files = tf.placeholder(tf.string, [None])
        iterator = tf.data.make_initializable_iterator(queue.dataset(files, queue.batch_size))
        batch = iterator.get_next()
        # One column of each feature: the whole batch is made, and little is copied into NumPy.
        fetches = [batch.labels[..., :1], *[feature[..., :1] for feature in batch.features]]
        session.run(iterator.initializer, {files: queue.files()})
        for _ in range(repeats + 1):
            clock = Clock()
            for _ in range(steps):
                session.run(fetches)
            measured.samples.append(clock.sample(steps))
    del measured.samples[0]  # the start
    return measured
