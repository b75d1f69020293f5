"""A folder of parsed shards: one `cached_shard` file for each version of a shard and each format to read it in.

A shard is parsed once. Its file appears whole or not at all, so that several processes may fill one folder. The name of
the file contains a hash of the shard's path, size and time, and of the format. So a changed shard or another format
has another file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence

import numpy as np

from yt8m import storage
from yt8m.errors import RunError
from yt8m.records import shards
from yt8m.records.cached_shard import Block, CachedShard, DamagedCacheError, write_cached_shard
from yt8m.records.data_format import DataFormat
from yt8m.records.record_parser import Raw, RecordParser
from yt8m.records.shards import RATING_LISTS, DamagedError
from yt8m.storage.local import free_bytes

_FORMAT = 4  # version of the files; a new version makes existing files stale


class ShardCache:
    """The parsed shards in a folder.

    Args:
      folder: local folder, made if missing; any number of processes may share it.
      data: what is read of a record: level, features, the number of classes (None to read no labels), whether segments
        are rated, and the number of frames from the start of a video (None for all).
      skips_bad: whether a bad record ends its shard, rather than being an error.

    Attributes:
      data: as given.
      types: the NumPy type in which the values of each feature are stored: bytes of frames stay bytes.
      frame_bytes: the bytes of one frame of each feature.
    """

    def __init__(self, folder: str, data: DataFormat, skips_bad: bool = False) -> None:
        self._folder, self.data, self._skips_bad = folder, data, skips_bad
        self._parser = RecordParser(data, data.max_frames)
        self.types = ["uint8" if declared.range and data.level == "frame" else "float32" for declared in data.features]
        self.frame_bytes = [
            feature.size * np.dtype(kind).itemsize for feature, kind in zip(data.features, self.types, strict=True)
        ]

    def room(self, files: Sequence[str]) -> str:
        """One line: how many of these shards are in the folder, how much room the others take, and the free room."""
        missing = [shard for shard in files if not storage.exists(self.place(shard))]
        needed, free = sum(storage.size(shard) for shard in missing), free_bytes(self._folder)
        line = f"{self._folder} has {len(files) - len(missing)} of {len(files)} parsed shards"
        if not missing:
            return line
        line += f"; the others take at most {needed / 1e9:.2f} GB, as the shards do, and {free / 1e9:.2f} GB are free"
        return f"{line}. The disk may become full" if needed > free else line

    def place(self, shard: str) -> str:
        """The path of the file for the present version of a shard.

        Raises:
          RunError: the shard cannot be read.
        """
        try:
            stat = os.stat(shard)
        except OSError as error:
            raise RunError(f"cannot read {shard}: {error.strerror}") from error
        made_from = [_FORMAT, os.path.realpath(shard), stat.st_size, stat.st_mtime_ns, self.data]
        digest = hashlib.sha256(json.dumps(made_from).encode()).hexdigest()[:24]
        return storage.join(self._folder, f"{os.path.basename(shard)[:100]}.{digest}.parsed")

    def opened(self, place: str) -> CachedShard | None:
        """The parsed records in the file at `place`; None if it is missing or damaged."""
        try:
            return CachedShard(place, sum(self.frame_bytes))
        except (storage.NotFoundError, DamagedCacheError):
            return None

    def made(self, shard: str, place: str) -> CachedShard:
        """Parses a shard and opens its file, which replaces an older one.

        Args:
          shard: the shard.
          place: the path of the file for the version of the shard that is expected.

        Raises:
          DamagedError: a record is bad, and none is skipped. Then there is no file.
          RunError: the shard has changed, or the file cannot be written.
        """
        damage = list[DamagedError]()
        write_cached_shard(place, self._blocks(shard, place, damage), damage)
        return CachedShard(place, sum(self.frame_bytes))

    def _blocks(self, shard: str, place: str, damage: list[DamagedError]) -> Iterator[Block]:
        """The sound records of a shard; if a bad one is skipped, it is added to `damage`."""
        count = 0
        try:
            for records in shards.read_blocks(shard):
                raws = [(record, shard, count + row) for row, record in enumerate(records)]
                yield from self._parsed(raws)
                count += len(records)
        except DamagedError as error:
            if not self._skips_bad:
                raise
            damage.append(error)
        if self.place(shard) != place:
            raise RunError(f"{shard} has changed while it was read; start again once it is whole.")

    def _parsed(self, raws: Sequence[Raw]) -> Iterator[Block]:
        """The records up to the first bad one, which is then raised."""
        try:
            yield self._block(raws)
        except DamagedError as error:
            # A record before this one may be bad too: the parser looks at one kind of damage after another.
            before = raws[: error.record - raws[0][2]]
            if before:
                yield from self._parsed(before)
            raise

    def _block(self, raws: Sequence[Raw]) -> Block:
        batch = self._parser.batch(raws)
        if not self.data.segment_labels:
            return Block(batch, {})
        ratings = list(map(self._parser.ratings, raws))
        return Block(batch, {name: [lists[place] for lists in ratings] for place, name in enumerate(RATING_LISTS)})
