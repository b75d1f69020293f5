"""Reads batches from a cache of parsed shards (`yt8m.records.shard_cache`), and fills it.

The input shuffles record numbers instead of records, so the order of examples is the same as without a cache. A
shard is parsed when an epoch first opens it and its file is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from absl import logging

from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.readers import base
from yt8m.readers.base import Reader
from yt8m.readers.damage import Tolerance
from yt8m.readers.flat_frames import Frames
from yt8m.records.cached_records import CachedRecords
from yt8m.records.data_format import PUBLISHED, DataFormat, features_of
from yt8m.records.shard_cache import ShardCache
from yt8m.records.shards import RATING_LISTS, DamagedError
from yt8m.types import Batch


class CachedInput:
    """The records of a list of shards as datasets and batches, from a cache.

    Args:
      records: the records, opened for the same reader.
      reader: the reader that parses the records without a cache.
      tolerance: counts bad records; None if the first bad record is an error.

    Attributes:
      failure: the first error of caching a shard; None without one.
    """

    def __init__(self, records: CachedRecords, reader: Any, tolerance: Tolerance | None = None) -> None:
        self._records, self._reader, self._tolerance = records, reader, tolerance
        self._format = records.cache.data
        self.failure: RunError | None = None

    def numbers(self, path: tf.Tensor) -> tf.data.Dataset:
        """Dataset of int64: the number of each record of a shard, in order."""
        (ends,) = self._call(self._ends, path, [tf.int64])
        return tf.data.Dataset.range(ends[0], ends[1])

    def batch(self, numbers: tf.Tensor) -> Batch:
        """The examples of the records with these numbers, int64 [N], as the reader would parse them."""
        features, types = self._format.features, list(map(tf.as_dtype, self._records.cache.types))
        if getattr(self._reader, "segment_labels", False):
            return self._segments(numbers, types)
        ids, labels, num_frames, *values = self._call(self._videos, numbers, [tf.string, tf.bool, tf.int32, *types])
        frames = [None] if self._format.level == "frame" else []
        values = [
            tf.ensure_shape(value, [None, *frames, feature.size])
            for value, feature in zip(values, features, strict=True)
        ]
        num_frames = tf.ensure_shape(num_frames, [None])
        return Batch(
            video_ids=tf.ensure_shape(ids, [None]),
            features=tuple(
                base.zero_padding(base.dequantize(value, max(bounds), min(bounds)), num_frames) if bounds else value
                for value, bounds in zip(values, self._bounds(), strict=True)
            ),
            num_frames=num_frames,
            labels=tf.ensure_shape(labels, [None, self._reader.num_classes]),
        )

    def labels(self, numbers: tf.Tensor) -> tf.Tensor:
        """bool [N, C], the labels of the records with these numbers, int64 [N]."""
        (labels,) = self._call(self._labels, numbers, [tf.bool])
        return tf.ensure_shape(labels, [None, self._reader.num_classes])

    def _segments(self, numbers: tf.Tensor, types: Sequence[tf.DType]) -> Batch:
        lists = {"labels": "int64", **RATING_LISTS} if self._format.segment_labels else {}
        of_lists = [kind for name in lists for kind in (tf.as_dtype(lists[name]), tf.int64)]
        columns = self._call(self._flat_videos, numbers, [tf.string, tf.int64, *of_lists, *types])
        ids, lengths, *arrays = (tf.ensure_shape(array, [None]) for array in columns[: 2 + len(of_lists)])
        context = {
            name: tf.RaggedTensor.from_row_splits(arrays[2 * place], arrays[2 * place + 1], validate=False)
            for place, name in enumerate(lists)
        }
        splits = tf.concat([[0], tf.cumsum(lengths)], axis=0)
        frames = [
            Frames(tf.ensure_shape(value, [None, feature.size]), splits, feature.size, bounds)
            for value, feature, bounds in zip(
                columns[2 + len(of_lists) :], self._format.features, self._bounds(), strict=True
            )
        ]
        return self._reader.segments_of(context, frames, lengths, ids)  # type: ignore[no-any-return]

    def _bounds(self) -> list[tuple[float, ...]]:
        """The range to which the cached bytes of a feature are dequantised here; empty if its values stay."""
        ranges = [feature.range for feature in self._format.features]
        return [
            bounds if kind == "uint8" and bounds and bounds != PUBLISHED else ()
            for kind, bounds in zip(self._records.cache.types, ranges, strict=True)
        ]

    def close(self) -> None:
        """Forgets the open shards; nothing is read until `reopen`."""
        self._records.close()

    def reopen(self) -> None:
        """Reads again after `close`."""
        self._records.is_closed = False

    def _call(self, function: Callable[[Any], list[np.ndarray]], argument: tf.Tensor, types: list[tf.DType]) -> Any:
        """Tensors of arrays that a Python function returns, which is called whenever they are computed."""

        def called(value: Any) -> list[np.ndarray]:
            try:
                return function(value)
            except DamagedError:  # `damage` finds it anew, and describes it as without a cache
                raise
            except RunError as error:
                if not self._records.is_closed:  # prefetch threads may still run
                    self.failure = self.failure or error
                raise

        # The function is declared stateless, because otherwise the position of the input could not be saved.
        return tf.numpy_function(called, [argument], types, stateful=False)

    def _ends(self, path: bytes) -> list[np.ndarray]:
        shard, ends = self._records.begun(path.decode())
        if shard.damage:
            error = DamagedError(path.decode(), *shard.damage)
            if self._tolerance is None:
                raise error
            self._tolerance.note(error)
        return [ends]

    def _videos(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Ids, labels, numbers of frames, and padded features."""
        picked = self._records.picked(numbers)
        return [picked.ids, picked.labels(self._reader.num_classes), picked.num_frames, *picked.features()]

    def _labels(self, numbers: np.ndarray) -> list[np.ndarray]:
        return [self._records.picked(numbers).labels(self._reader.num_classes)]

    def _flat_videos(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Ids, lengths, labels and ratings if they are read (each with its row splits), and frames without padding."""
        picked, lists = self._records.picked(numbers), []
        if self._format.segment_labels:
            lists = [picked.lists(name) for name in ("labels", *RATING_LISTS)]
        arrays = [array for ragged in lists for array in ragged]
        return [picked.ids, picked.num_frames.astype(np.int64), *arrays, *picked.frames()]


def open_cache(folder: str, reader: Reader, files: Sequence[str], *, skips_bad: bool) -> CachedRecords:
    """The records that `reader` would parse, from the cache in a folder; logs how much room the cache needs.

    Args:
      folder: folder of the cache.
      reader: the reader.
      files: the shards.
      skips_bad: whether a bad record ends its shard, rather than being an error.
    """
    cache = ShardCache(folder, format_of(reader), skips_bad)
    logging.info("--cache: %s", cache.room(files))
    return CachedRecords(cache, files)


def format_of(reader: Reader) -> DataFormat:
    """What a reader of YouTube-8M's records reads of a record."""
    level = "frame" if hasattr(reader, "max_frames") else "video"
    features = features_of(level, reader.feature_names, reader.feature_sizes, reader.feature_ranges)
    if not getattr(reader, "segment_labels", False):
        return DataFormat(level, features, False, reader.num_classes, getattr(reader, "max_frames", None))
    # Rated segments may lie after the usual end of videos. A reader of all segments reads no labels.
    is_rated = bool(getattr(reader, "keeps_few_frames", False))
    classes, max_frames = (reader.num_classes, None) if is_rated else (None, getattr(reader, "max_frames", None))
    return DataFormat(level, features, is_rated, classes, max_frames)
