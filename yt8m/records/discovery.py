"""Finds out what shards hold, without TensorFlow: from their manifest, or else from a first record."""

from __future__ import annotations

import contextlib
import io
import struct
from collections.abc import Sequence
from typing import NamedTuple

from yt8m import storage
from yt8m.errors import RunError
from yt8m.records import manifest, shards
from yt8m.records.data_format import PUBLISHED, DataFormat, FeatureFormat
from yt8m.records.shards import Record

_TRIED = 3  # shards whose first record is looked at, until one tells
_HEAD = 1 << 18  # bytes that hold the first record of most shards
_LARGEST = 1 << 28  # a longer record is not fetched for this


class Found(NamedTuple):
    """What shards hold, and which file says so.

    Attributes:
      format: level, features, and the rest as far as it is known.
      source: the manifest, or the shard whose first record was read.
      is_declared: True if a manifest says it. A single record may lack what others have.
    """

    format: DataFormat
    source: str
    is_declared: bool

    def __str__(self) -> str:
        return self.source if self.is_declared else f"the first record of {self.source}"


def find(files: Sequence[str], manifest_path: str = "") -> Found | None:
    """What the shards hold; None if no manifest says it and no first record shows it.

    Args:
      files: the shards.
      manifest_path: the manifest; if it is empty, those in the folders of the shards.

    Raises:
      RunError: a manifest is damaged, or two contradict one another.
    """
    if manifest_path:
        known = manifest.read(manifest_path) if storage.exists(manifest_path) else manifest.Manifest((), {})
    else:
        known = manifest.find(files)
    if known.data is not None:
        return Found(known.data, known.sources[0], True)
    for path in files[:_TRIED]:
        record = _first_record(path)
        format = None if record is None else of_record(record)
        if format is not None:
            return Found(format, path, False)
    return None


def of_record(record: Record) -> DataFormat | None:
    """The format of records like this one, with its features in alphabetical order; None if it does not show them.

    A feature is a list of floats, or in each frame a list of floats or one string of bytes. A record does not show its
    features if one of them has no frame, or frames of several sizes.
    """
    has_frames = bool(record.lists)
    of_video = {name: [one] for name, one in record.context.items() if name not in shards.NOT_FEATURES}
    kinds = ("float", "bytes") if has_frames else ("float",)
    features = []
    for name, frames in sorted((record.lists or of_video).items()):
        found = {(one.kind, len(one.numbers())) for one in frames}
        if found and not {kind for kind, _ in found} & {*kinds, ""}:
            continue  # timestamps, say
        kind, size = next(iter(found), ("", 0))
        if len(found) != 1 or size == 0:
            return None
        features.append(FeatureFormat(name, size, PUBLISHED if kind == "bytes" else None))
    level = "frame" if has_frames else "video"
    return DataFormat(level, tuple(features), "segment_labels" in record.context) if features else None


def _first_record(path: str) -> Record | None:
    """The first record of a shard; None if it is damaged, which whoever reads the shard next says better."""
    with contextlib.suppress(RunError, ValueError):
        for payload in shards.read_records(io.BytesIO(_start_of(path)), path):
            return shards.parse(payload)
    return None


def _start_of(path: str) -> bytes:
    """The bytes of a shard up to the end of its first record, or more."""
    start = storage.read_start(path, _HEAD)
    whole = struct.unpack_from("<Q", start)[0] + manifest.AROUND if len(start) >= 12 else 0
    return start if not len(start) < whole <= _LARGEST else storage.read_start(path, whole)
