"""Remote shards in a dataset: announced some files ahead, read from local copies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from yt8m.errors import RunError, UsageError
from yt8m.lazy import tf
from yt8m.storage import settings
from yt8m.storage.staging import Stage

_AHEAD = 4  # files, beside those that are read side by side
_BUFFER = 256 << 10  # bytes, as tf.data.TFRecordDataset has it


class StagedFiles:
    """The paths of a dataset, and the local copies that they are read from.

    Args:
      num_readers: files read side by side.
    """

    def __init__(self, num_readers: int) -> None:
        self._ahead = num_readers + _AHEAD
        self._stage = Stage(num_readers)

    @property
    def failure(self) -> RunError | None:
        """Why a file could not be staged."""
        return self._stage.failure

    def announced(self, paths: tf.data.Dataset) -> tf.data.Dataset:
        """The same paths; each begins to be fetched some places before it is asked for."""
        return paths.map(lambda path: self._call(self._announce, path)).prefetch(self._ahead)

    def records(self, path: tf.Tensor) -> tf.data.Dataset:
        """The records of a file, from its local copy; waits for it."""
        # Not tf.data.TFRecordDataset, which puts the copy's name into a saved position in the data: another
        # process has other copies. Of this one, the position holds the name in the bucket.
        here = self._call(self._take, path)
        variant = tf.raw_ops.TFRecordDataset(filenames=here, compression_type="", buffer_size=_BUFFER)
        return tf.data.experimental.from_variant(variant, tf.TensorSpec([], tf.string))

    def copy_of(self, path: str) -> str:
        """The local copy of a file that is opened again and again while it is read."""
        return self._stage.again(path)

    def _call(self, function: Any, path: tf.Tensor) -> tf.Tensor:
        # Not stateful, or a position in the data could not be saved.
        found = tf.numpy_function(function, [path], tf.string, stateful=False)
        return tf.ensure_shape(found, [])

    def _announce(self, path: bytes) -> np.ndarray:
        self._stage.announce(path.decode())
        return np.array(path, object)

    def _take(self, path: bytes) -> np.ndarray:
        return np.array(self._stage.take(path.decode()).encode(), object)


def staging_for(patterns: Sequence[str], num_readers: int) -> StagedFiles | None:
    """How the files of `patterns` are staged; None where none is in a bucket, or TensorFlow is to read them.

    Raises:
      UsageError: TensorFlow is to read them by itself, and cannot.
    """
    if not any("gs://" in pattern for pattern in patterns):
        return None
    if settings.current().gs_reading == "staged":
        return StagedFiles(num_readers)
    if "gs" not in tf.io.gfile.get_registered_schemes():
        raise UsageError(
            f"--gs_reading=direct: this TensorFlow {tf.version.VERSION} has no file system for gs://; leave "
            "the flag out, so that shards are staged."
        )
    return None
