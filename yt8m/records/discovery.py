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

_TRIED = 3  # number of shards whose first record is examined before the search is given up
_HEAD = 1 << 18  # bytes read from the start of a shard; most first records are shorter
_LARGEST = 1 << 28  # bytes; a longer first record is not fetched


class Found(NamedTuple):
    """The format of the records in shards, and the file that it was found in.

    Attributes:
      format: the level and the features; other attributes are None if they are unknown.
      source: the path of the manifest, or of the shard whose first record was read.
      is_declared: whether a manifest declares the format. A format read from one record may lack features of others.
      extractors: the entry `extractors` of the manifest; empty if it has none.
    """

    format: DataFormat
    source: str
    is_declared: bool
    extractors: tuple[Mapping[str, Any], ...] = ()

    def __str__(self) -> str:
        return self.source if self.is_declared else f"the first record of {self.source}"


def find(files: Sequence[str], manifest_path: str = "") -> Found | None:
    """The format of the records; None if there is no manifest, and the first records of a few shards do not show it.

    Args:
      files: the shards.
      manifest_path: path of the manifest; if it is empty, the manifests in the folders of the shards are read.

    Raises:
      RunError: a manifest is damaged, or two contradict each other.
    """
    if manifest_path:
        written = manifest.read(manifest_path) if storage.exists(manifest_path) else manifest.Manifest((), {})
    else:
        written = manifest.find(files)
    if written.data is not None:
        return Found(written.data, written.sources[0], True, written.extractors)
    for path in files[:_TRIED]:
        record = _first_record(path)
        format = None if record is None else of_record(record)
        if format is not None:
            return Found(format, path, False)
    return None


def of_record(record: Record) -> DataFormat | None:
    """The format of a record, with its features in alphabetical order; None if the record does not show their sizes.

    A feature is a list of floats or, at frame level, one list of floats or one string of bytes per frame. Its size is
    unknown if it has no frame, or frames of several sizes.
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
    """The first record of a shard; None if it is damaged: whatever reads the shard later reports the damage."""
    with contextlib.suppress(RunError, ValueError):
        for payload in shards.read_records(io.BytesIO(_start_of(path)), path):
            return shards.parse(payload)
    return None


def _start_of(path: str) -> bytes:
    """The first bytes of a shard, at least up to the end of its first record unless that is longer than `_LARGEST`."""
    start = storage.read_start(path, _HEAD)
    whole = struct.unpack_from("<Q", start)[0] + manifest.AROUND if len(start) >= 12 else 0
    return start if not len(start) < whole <= _LARGEST else storage.read_start(path, whole)
