"""A whole shard of videos parsed at once, in a graph of its own."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from yt8m.lazy import tf
from yt8m.readers.unconverted import unconverted

_RECORDS = 512  # parsed at once


class ShardParser:
    """Parses one shard after the other by a reader.

    Args:
      reader: of videos.
    """

    def __init__(self, reader: Any) -> None:
        self._reader = reader
        self._session: tf.Session | None = None

    def parse(self, path: str) -> tuple[list[bytes], list[np.ndarray], list[np.ndarray]]:
        """The ids, the classes of each record, and a float32 [N, size] array a feature.

        Raises:
          tf.errors.OpError: the shard is damaged, or a record is not as the reader wants it.
        """
        session = self._session or self._open()
        session.run(self._start, {self._path: path})
        ids: list[bytes] = []
        labels: list[np.ndarray] = []
        features: list[tuple[np.ndarray, ...]] = []
        with contextlib.suppress(tf.errors.OutOfRangeError):
            while True:
                batch = session.run(self._batch)
                ids += batch["ids"].tolist()
                labels += [np.flatnonzero(row) for row in batch["labels"]]
                features.append(batch["features"])
        empty = [np.zeros([0, size], np.float32) for size in self._reader.feature_sizes]
        return ids, labels, [np.concatenate(parts) for parts in zip(empty, *features, strict=True)]

    def close(self) -> None:
        """Lets the graph go; a later call makes it anew."""
        if self._session is not None:
            self._session.close()
            self._session = None

    @unconverted
    def _open(self) -> tf.Session:
        with tf.Graph().as_default() as graph, tf.device("/cpu:0"):
            self._path = tf.placeholder(tf.string, [])
            records = tf.data.TFRecordDataset(self._path).batch(_RECORDS)
            iterator = tf.data.make_initializable_iterator(
                records.map(self._reader.prepare_serialized_examples)
            )
            batch = iterator.get_next()
            self._start = iterator.initializer
            self._batch: dict[str, Any] = {
                "ids": batch.video_ids,
                "labels": batch.labels,
                "features": batch.features,
            }
        # Threads of its own: it is run from within threads of the session that trains.
        config = tf.ConfigProto(
            use_per_session_threads=True, inter_op_parallelism_threads=2, device_count={"GPU": 0}
        )
        self._session = tf.Session(graph=graph, config=config)
        return self._session
