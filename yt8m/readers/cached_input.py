"""Reads batches from a cache of parsed shards (`yt8m.records.shard_cache`), and fills the cache.

With a cache, the input shuffles the numbers of records in place of the records themselves, so that the order of
examples is the same as without a cache. A shard that the cache lacks is parsed when an epoch first opens it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from absl import logging

from yt8m.errors import RunError
from yt8m.lazy import tf
from yt8m.readers import base, told_apart
from yt8m.readers.base import Reader
from yt8m.readers.damage import Tolerance
from yt8m.readers.flat_frames import Frames
from yt8m.records.cached_records import CachedRecords
from yt8m.records.data_format import PUBLISHED, DataFormat, features_of
from yt8m.records.shard_cache import ShardCache
from yt8m.records.shards import SEGMENT_LISTS, DamagedError
from yt8m.storage.base import cache_dir
from yt8m.types import Batch

AUTO = "auto"  # the value of --cache for a folder in the cache of this program


class CachedInput:
    """Provides the records of some shards from a cache, as datasets of record numbers and as batches.

    Args:
      reader: the reader that would parse the records without a cache.
      tolerance: counts damaged records; None if the first damaged record is an error.

    Attributes:
      failure: the first error while a shard was cached or read, other than a `DamagedError` or an error after `close`;
        None if there is none.
    """

    def __init__(self, records: CachedRecords, reader: Any, tolerance: Tolerance | None = None) -> None:
        self._records, self._reader, self._tolerance = records, reader, tolerance
        self._format = records.cache.data
        self.failure: RunError | None = None

    def numbers(self, path: tf.Tensor) -> tf.data.Dataset:
        """A dataset of the numbers of a shard's records, int64, in order."""
        (ends,) = self._call(self._begin_shard, path, [tf.int64])
        return tf.data.Dataset.range(ends[0], ends[1])

    def batch(self, numbers: tf.Tensor) -> Batch:
        """The records with these numbers, int64 [N], as the `Batch` that the reader would make of them."""
        features, types = self._format.features, list(map(tf.as_dtype, self._records.cache.types))
        if getattr(self._reader, "segment_labels", False):
            return self._segments(numbers, types)
        of_labels = tf.int64 if self._reader.lists_labels else tf.bool
        ids, labels, num_frames, *values = self._call(
            self._read_videos, numbers, [tf.string, of_labels, tf.int32, *types]
        )
        frames = [None] if self._format.level == "frame" else []
        values = [
            tf.ensure_shape(value, [None, *frames, feature.size])
            for value, feature in zip(values, features, strict=True)
        ]
        num_frames = tf.ensure_shape(num_frames, [None])
        videos = Batch(
            video_ids=tf.ensure_shape(ids, [None]),
            features=tuple(
                base.zero_padding(base.dequantize(value, max(bounds), min(bounds)), num_frames) if bounds else value
                for value, bounds in zip(values, self._bounds(), strict=True)
            ),
            num_frames=num_frames,
            **self._fields_of(labels),
        )
        return told_apart.from_cells(videos, self._reader)

    def _fields_of(self, labels: tf.Tensor) -> dict[str, tf.Tensor | None]:
        """The fields of a `Batch` for labels that `_read_videos` returned."""
        if self._reader.lists_labels:
            return {"labels": None, "label_lists": tf.ensure_shape(labels, [None, None])}
        return {"labels": tf.ensure_shape(labels, [None, self._reader.num_classes])}

    def ids(self, numbers: tf.Tensor) -> tf.Tensor:
        """The ids, string [N], of the records with the `numbers`, int64 [N]."""
        (ids,) = self._call(self._read_ids, numbers, [tf.string])
        return tf.ensure_shape(ids, [None])

    def labels(self, numbers: tf.Tensor) -> tf.Tensor:
        """The labels, bool [N, C], of the records with the `numbers`, int64 [N]."""
        (labels,) = self._call(self._read_labels, numbers, [tf.bool])
        return tf.ensure_shape(labels, [None, self._reader.num_classes])

    def _segments(self, numbers: tf.Tensor, types: Sequence[tf.DType]) -> Batch:
        """The `Batch` of the segments of some videos.

        Args:
          numbers: int64 [N], the numbers of the videos' records.
        """
        lists = {"labels": "int64", **SEGMENT_LISTS} if self._format.segment_labels else {}
        list_types = [kind for name in lists for kind in (tf.as_dtype(lists[name]), tf.int64)]
        columns = self._call(self._read_flat_videos, numbers, [tf.string, tf.int64, *list_types, *types])
        ids, lengths, *arrays = (tf.ensure_shape(array, [None]) for array in columns[: 2 + len(list_types)])
        context = {
            name: tf.RaggedTensor.from_row_splits(arrays[2 * index], arrays[2 * index + 1], validate=False)
            for index, name in enumerate(lists)
        }
        splits = tf.concat([[0], tf.cumsum(lengths)], axis=0)
        frames = [
            Frames(tf.ensure_shape(value, [None, feature.size]), splits, feature.size, bounds)
            for value, feature, bounds in zip(
                columns[2 + len(list_types) :], self._format.features, self._bounds(), strict=True
            )
        ]
        return self._reader.segments_of(context, frames, lengths, ids)  # type: ignore[no-any-return]

    def _bounds(self) -> list[tuple[float, ...]]:
        """For each feature the range to which its bytes are dequantized here; () if a batch has the cached values.

        A batch has bytes only of YouTube-8M's range, since models dequantize them to that range.
        """
        ranges = [feature.range for feature in self._format.features]
        return [
            bounds if kind == "uint8" and bounds and bounds != PUBLISHED else ()
            for kind, bounds in zip(self._records.cache.types, ranges, strict=True)
        ]

    def close(self) -> None:
        """Closes the shards; nothing can be read until `reopen` is called."""
        self._records.close()

    def reopen(self) -> None:
        """Allows reading again after `close`."""
        self._records.is_closed = False

    def _call(self, function: Callable[[Any], list[np.ndarray]], argument: tf.Tensor, types: list[tf.DType]) -> Any:
        """Calls a Python function whenever the returned tensors are computed; keeps the first error as `failure`."""

        def call_and_note(value: Any) -> list[np.ndarray]:
            try:
                return function(value)
            except DamagedError:
                # The error is not kept: `BatchQueue.damage` finds the record again, and describes it as it would
                # without a cache.
                raise
            except RunError as error:
                # After `close`, threads that still read ahead fail. Their errors do not count.
                if not self._records.is_closed:
                    self.failure = self.failure or error
                raise

        # `stateful=False`, because TensorFlow cannot save the position of an input with stateful functions.
        return tf.numpy_function(call_and_note, [argument], types, stateful=False)

    def _begin_shard(self, path: bytes) -> list[np.ndarray]:
        """Opens or parses a shard: [int64 [2]: the number of its first record, and that of its last one plus 1]."""
        shard, ends = self._records.begin_shard(path.decode())
        if shard.damage:
            error = DamagedError(path.decode(), *shard.damage)
            if self._tolerance is None:
                raise error
            self._tolerance.note(error)
        return [ends]

    def _read_videos(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Ids, labels, numbers of frames, and the padded values of each feature of the records with these numbers."""
        picked = self._records.pick_records(numbers)
        labels = picked.label_lists() if self._reader.lists_labels else picked.labels(self._reader.num_classes)
        return [picked.ids, labels, picked.num_frames, *picked.features()]

    def _read_ids(self, numbers: np.ndarray) -> list[np.ndarray]:
        return [self._records.pick_records(numbers).ids]

    def _read_labels(self, numbers: np.ndarray) -> list[np.ndarray]:
        return [self._records.pick_records(numbers).labels(self._reader.num_classes)]

    def _read_flat_videos(self, numbers: np.ndarray) -> list[np.ndarray]:
        """Ids, numbers of frames, labels and ratings, and frames without padding of the records with these numbers.

        Labels and ratings are read only for rated segments: for each list, two arrays, `values` and `splits`.
        """
        picked, lists = self._records.pick_records(numbers), []
        if self._format.segment_labels:
            lists = [picked.lists(name) for name in ("labels", *SEGMENT_LISTS)]
        arrays = [array for ragged in lists for array in ragged]
        return [picked.ids, picked.num_frames.astype(np.int64), *arrays, *picked.frames()]


def open_cache(folder: str, reader: Reader, files: Sequence[str], *, skips_bad: bool) -> CachedRecords:
    """Opens the cache in a folder, for the records that a reader would parse; logs how much disk space it needs.

    Args:
      folder: `auto` for a folder in the cache of this program on this machine, which all runs share.
    """
    if folder == AUTO:
        folder = os.path.join(cache_dir(), "parsed")
    cache = ShardCache(folder, format_of(reader), skips_bad)
    logging.info("--cache: %s", cache.describe_space(files))
    return CachedRecords(cache, files)


def format_of(reader: Reader) -> DataFormat:
    """The format in which a reader of YouTube-8M's records reads them, as `ShardCache` takes it."""
    level = "frame" if hasattr(reader, "max_frames") else "video"
    features = features_of(level, reader.feature_names, reader.feature_sizes, reader.feature_ranges)
    if not getattr(reader, "segment_labels", False):
        return DataFormat(level, features, False, reader.num_classes, getattr(reader, "max_frames", None))
    # Rated segments may lie after `max_frames`, so all frames are read. A reader of all segments reads no labels.
    is_rated = bool(getattr(reader, "keeps_few_frames", False))
    classes, max_frames = (reader.num_classes, None) if is_rated else (None, getattr(reader, "max_frames", None))
    return DataFormat(level, features, is_rated, classes, max_frames)
