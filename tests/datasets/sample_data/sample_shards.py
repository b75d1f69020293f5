"""Reads shards of sample data by TensorFlow alone, without the code of this project."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np

from yt8m.lazy import tf


def read_split(folder: pathlib.Path, level: str, split: str) -> list[Any]:
    """The Examples or SequenceExamples of all shards of a split, in order."""
    proto = tf.train.Example if level == "video" else tf.train.SequenceExample
    shards = sorted((folder / level / split).glob("*.tfrecord"))
    return [proto.FromString(record) for shard in shards for record in tf.io.tf_record_iterator(str(shard))]


def read_frames(example: Any) -> np.ndarray:
    """The frames of a SequenceExample, uint8 [T, 1152]: rgb, then audio."""
    lists = example.feature_lists.feature_list
    parts = [
        np.array([np.frombuffer(frame.bytes_list.value[0], np.uint8) for frame in lists[name].feature])
        for name in ("rgb", "audio")
    ]
    return np.concatenate(parts, axis=1)


def dequantized(frames: np.ndarray) -> np.ndarray:
    """Converts quantised frames to float64 by the published formula."""
    return frames.astype(float) * 4 / 255 + 4 / 512 - 2
