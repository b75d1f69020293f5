"""What is looked at before the first record is read: are the shards whole, and are they what they should be?

TensorFlow reads a shard that was cut between two records, or inside the 12 bytes before one, as one that ends
there. So the headers of all shards are walked first, and their counts compared with the manifest's.
"""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Sequence

from absl import logging

from yt8m import manifest, readers, shard_walk, storage
from yt8m.config import DataConfig
from yt8m.errors import RunError, UsageError
from yt8m.graph import Inputter
from yt8m.manifest import Manifest

_SHOWN = 3  # differences in one error


def check_input(inputter: Inputter, data: DataConfig, is_training: bool = False) -> None:
    """Refuses shards that are damaged or not as the manifest says; a training only warns of the latter.

    Shards in buckets are not walked: of them, sizes are compared.

    Raises:
      UsageError: no file matches; the manifest that was named is not there.
      RunError: names the shard, what it holds and what it should.
    """
    files = inputter.files()
    if isinstance(inputter, readers.BatchQueue):
        inputter.threads.tell(data.num_readers)
    counts = _counts(files, data.max_bad_records > 0)
    known = _manifest(files, data)
    if not known.shards:
        logging.info("counts not checked: there is no manifest (yt8m verify FILES --manifest=... writes one)")
    different = _differences(files, counts, known, bool(data.manifest)) + _gone(files, known, data)
    if different:
        more = f"; and {len(different) - _SHOWN} more" if len(different) > _SHOWN else ""
        text = "; ".join(different[:_SHOWN]) + more
        if not is_training:
            raise RunError(
                f"{text}. Fetch the shards again, or write the manifest anew (yt8m verify --update)."
            )
        logging.warning("%s", text)
    if data.segment_labels or counts.keys() != set(files):
        return
    if isinstance(inputter, readers.BatchQueue):
        shards = [(path, known.expected(path)) for path in files]
        wanted = sum(counts[path] if shard is None else shard.records for path, shard in shards)
        inputter.records, inputter.expected_records = sum(counts.values()), wanted


def _counts(files: Sequence[str], may_be_damaged: bool) -> dict[str, int]:
    """The records of each local shard; without the damaged ones where the run goes on past damage."""
    local = [path for path in files if not storage.is_remote(path)]
    counts: dict[str, int] = {}
    for path, count in zip(local, shard_walk.count_all(local), strict=True):
        if isinstance(count, int):
            counts[path] = count
        elif not may_be_damaged:
            raise count
    return counts


def _manifest(files: Sequence[str], data: DataConfig) -> Manifest:
    if not data.manifest:
        return manifest.find(files)
    if not storage.exists(data.manifest):
        raise UsageError(
            f"--manifest={data.manifest}: there is no such file; yt8m verify FILES --manifest=... writes it."
        )
    return manifest.read(data.manifest)


def _differences(
    files: Sequence[str], counts: dict[str, int], known: Manifest, must_be_named: bool
) -> list[str]:
    """How the shards differ from the manifest, each in a few words."""
    found: list[str] = []
    unnamed = [path for path in files if known.expected(path) is None]
    if unnamed and must_be_named:
        found.append(f"{unnamed[0]} is not in {known.sources[0]}")
    elif unnamed and known.shards:
        logging.info("counts not checked: %s names no %s", ", ".join(known.sources), unnamed[0])
    for path in files:
        shard = known.expected(path)
        if shard is None:
            continue
        if counts.get(path, shard.records) != shard.records:
            found.append(f"{path} holds {counts[path]} records, but the manifest says {shard.records}")
        elif (path in counts or storage.is_remote(path)) and storage.size(path) != shard.bytes:
            found.append(f"{path} has {storage.size(path)} bytes, but the manifest says {shard.bytes}")
    return found


def _gone(files: Sequence[str], known: Manifest, data: DataConfig) -> list[str]:
    """Shards that the manifest names and the pattern asks for, but that are not there."""
    patterns = [os.path.abspath(piece.strip()) for piece in data.data_pattern.split(",")]
    there = {os.path.abspath(path) for path in files}
    return [
        f"{path} is gone, but the manifest names it"
        for path in known.shards
        if path not in there and any(fnmatch.fnmatch(path, pattern) for pattern in patterns)
    ]
