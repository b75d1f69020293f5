"""Finds the format of the records in shards, without TensorFlow: in a manifest, or else from a shard's first record."""

from __future__ import annotations

import contextlib
import io
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from yt8m import storage
from yt8m.errors import RunError
from yt8m.records import manifest, shards
from yt8m.records.data_format import PUBLISHED, DataFormat, FeatureFormat
from yt8m.records.shards import Record

_MAX_SHARDS = 3  # the first records of at most this number of shards are read to find the format
_HEAD = 1 << 18  # bytes read from the start of a shard; most first records are shorter
_LARGEST = 1 << 28  # bytes; a longer first record is not fetched


class DiscoveredFormat(NamedTuple):
    """The format of the records in shards, and the file that shows it.

    Attributes:
      format: the format. If it is that of one record, `num_classes`, `max_frames` and `positives` are None.
      source: the path of the manifest, or of the shard whose first record was read.
      is_declared: whether a manifest declares the format. If not, it is that of one record, and other records may have
        further features.
      extractors: the entry `extractors` of the manifest, which `yt8m.records.manifest` describes: the networks that
        computed the features; empty if there is no such entry.
    """

    format: DataFormat
    source: str
    is_declared: bool
    extractors: tuple[Mapping[str, Any], ...] = ()

    def __str__(self) -> str:
        return self.source if self.is_declared else f"the first record of {self.source}"


def find(files: Sequence[str], manifest_path: str = "") -> DiscoveredFormat | None:
    """The format of the records; None if no manifest declares it and no first record of the first shards shows it.

    Args:
      files: the shards.
      manifest_path: path of the manifest, which need not exist; if the path is empty, the manifests in the folders of
        the shards are read.

    Raises:
      RunError: a manifest is damaged, or two contradict each other.
    """
    if manifest_path:
        written = manifest.read(manifest_path) if storage.exists(manifest_path) else manifest.Manifest((), {})
    else:
        written = manifest.find(files)
    if written.data is not None:
        return DiscoveredFormat(written.data, written.sources[0], True, written.extractors)
    for path in files[:_MAX_SHARDS]:
        record = _first_record(path)
        format = None if record is None else of_record(record)
        if format is not None:
            return DiscoveredFormat(format, path, False)
    return None


def of_record(record: Record) -> DataFormat | None:
    """The format of a record, with its features in alphabetical order; None if the record does not show their sizes.

    A feature is a list of floats; at frame level, it is one list of floats or one string of bytes per frame. A record
    does not show the size of a feature that has no frame, or frames of several sizes.
    """
    has_frames = bool(record.lists)
    kinds = ("float", "bytes") if has_frames else ("float",)
    features = []
    for name, frames in sorted((record.lists or record.features()).items()):
        kinds_and_sizes = {(frame.kind, len(frame.numbers())) for frame in frames}
        if kinds_and_sizes and not {kind for kind, _ in kinds_and_sizes} & {*kinds, ""}:
            continue  # timestamps, for example
        kind, size = next(iter(kinds_and_sizes), ("", 0))
        if len(kinds_and_sizes) != 1 or size == 0:
            return None
        features.append(FeatureFormat(name, size, PUBLISHED if kind == "bytes" else None))
    level = "frame" if has_frames else "video"
    return DataFormat(level, tuple(features), "segment_labels" in record.context) if features else None


def _first_record(path: str) -> Record | None:
    """The first record of a shard; None if it is damaged, or the shard has none.

    The damage is not reported here: the program that reads the whole shard later reports it.
    """
    with contextlib.suppress(RunError, ValueError):
        for payload in shards.read_records(io.BytesIO(_start_of(path)), path):
            return shards.parse(payload)
    return None


def _start_of(path: str) -> bytes:
    """The first bytes of a shard: the first record is complete in them, unless it has more than `_LARGEST` bytes."""
    start = storage.read_start(path, _HEAD)
    record_size = struct.unpack_from("<Q", start)[0] + manifest.AROUND if len(start) >= 12 else 0
    return storage.read_start(path, record_size) if len(start) < record_size <= _LARGEST else start
