"""The binary format of CIFAR-10: records of 3,073 bytes, a label and then three planes of 32x32 pixels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from yt8m import storage
from yt8m.errors import RunError
from yt8m.lazy import tf

SIDE, DEPTH, NUM_CLASSES = 32, 3, 10
RECORD_BYTES = 1 + DEPTH * SIDE * SIDE


class Images(NamedTuple):
    """A batch of B pictures.

    Attributes:
      images: float32 [B, height, width, 3].
      labels: int32 [B], 0 to 9.
    """

    images: tf.Tensor
    labels: tf.Tensor


def decode(records: tf.Tensor) -> Images:
    """Records, string [B], as pictures [B, 32, 32, 3] of values 0 to 255.

    A label above 9 (another data set, or damage) raises InvalidArgumentError when it runs.
    """
    values = tf.reshape(tf.io.decode_raw(records, tf.uint8), [-1, RECORD_BYTES])
    labels = tf.cast(values[:, 0], tf.int32)
    in_range = tf.debugging.assert_less(
        labels, NUM_CLASSES, message="a label is not below 10: this file is not CIFAR-10, or it is damaged"
    )
    planes = tf.reshape(tf.cast(values[:, 1:], tf.float32), [-1, DEPTH, SIDE, SIDE])
    with tf.control_dependencies([in_range]):
        return Images(tf.transpose(planes, [0, 2, 3, 1]), tf.identity(labels))


def encode(images: np.ndarray, labels: np.ndarray) -> bytes:
    """uint8 [N, 32, 32, 3] and [N] as the bytes of a file."""
    planes = np.asarray(images, np.uint8).transpose(0, 3, 1, 2).reshape(len(images), -1)
    return np.concatenate([np.asarray(labels, np.uint8)[:, np.newaxis], planes], axis=1).tobytes()


def check_sizes(paths: Sequence[str], records_per_file: int) -> None:
    """Refuses files with another number of records: training would silently use less of a truncated file.

    Raises:
      RunError: names the file, its size and the size it should have.
    """
    expected = records_per_file * RECORD_BYTES
    for path in paths:
        found = storage.size(path)
        if found != expected:
            what = "cut short" if found < expected else "too long"
            raise RunError(
                f"{path} is {what}: it has {found} bytes, expected {expected} ({records_per_file} records of "
                f"{RECORD_BYTES} bytes). Remove it and fetch or generate the set again."
            )
