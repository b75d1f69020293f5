"""The extraction of one shard: computes the features of its videos, and writes its file at each level.

A shard depends only on its own videos and on the flags, so any process can extract it, in any order.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from yt8m import storage
from yt8m.commands.extract.computing import Chosen, Clip, Computer, Features, Settings
from yt8m.commands.extract.journal import Finished
from yt8m.commands.extract.shard_files import ShardFiles
from yt8m.commands.extract.weights import Weights
from yt8m.commands.make_records.features import LEARNED, parse_ranges
from yt8m.extractors.decoder_pool import DecoderPool, Limits

if TYPE_CHECKING:
    from yt8m.commands.extract import ExtractConfig


class TableRow(NamedTuple):
    """A row of the table: its number, the id, the classes and the video."""

    number: int
    id: bytes
    classes: tuple[int, ...]
    clip: Clip


class ShardExtractor:
    """The opened extractors, and the folders that shards are written to. Use it in a `with` block.

    Args:
      config: the flags.
      chosen: the extractors.
      found: the weights of each.
      making: {level: the folder that its shards are written to}.

    Attributes:
      making: see above.
      sizes: number of values of each feature.
    """

    def __init__(
        self, config: ExtractConfig, chosen: Sequence[Chosen], found: Sequence[Weights], making: Mapping[str, str]
    ) -> None:
        self._config, self.making = config, making
        self._features = [one.extractor.feature for one in chosen]
        ranges = ranges_of(config.ranges, chosen)
        self._ranges = [None] * len(chosen) if LEARNED in ranges else ranges  # until they are learned
        self._open = contextlib.ExitStack()
        self._computer = self._open.enter_context(Computer(chosen, found, settings_of(config)))
        self.sizes = self._computer.sizes

    def __enter__(self) -> ShardExtractor:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """Closes the extractors."""
        self._open.close()

    def pool(self) -> DecoderPool:
        """The processes that decode; close them in the thread that made them."""
        return DecoderPool(self._config.processes, Limits(self._config.decode_seconds, self._config.decode_memory))

    def extract(
        self, shard: str, rows: Sequence[TableRow], entry: Finished, pool: DecoderPool, advance: Callable[[float], None]
    ) -> Finished:
        """Extracts the videos of a shard and writes it at each level.

        Args:
          shard: path of the shard in the folder of a level.
          rows: its videos.
          entry: the journal's entry, which is filled in.
          pool: decodes the videos.
          advance: is called after each video with the seconds that were decoded.
        """
        threads = max(1, (os.cpu_count() or 1) // self._config.processes)
        clips = [row.clip for row in rows]
        paths = {level: storage.join(folder, shard) for level, folder in self.making.items()}
        with ShardFiles(paths, self._features, self._ranges) as files:
            for row, found in zip(rows, self._computer.features(clips, pool, threads), strict=True):
                _note(entry, shard, row, found)
                if not found.bad:
                    files.add(row.id, row.classes, found.arrays)
                advance(found.seconds)
        entry.levels = files.levels
        return entry


def _note(entry: Finished, shard: str, row: TableRow, found: Features) -> None:
    told = {"id": os_text(row.id), "path": row.clip.path, "shard": shard}
    if found.bad:
        entry.bad[str(row.number)] = found.bad
        entry.videos.append({**told, "state": "left out", "reason": found.bad})
        return
    count = len(found.arrays[0])
    entry.cut += any(note.startswith("only the first") for note in found.notes)
    for index in row.classes:
        entry.positives[str(index)] = entry.positives.get(str(index), 0) + 1
    entry.frames, entry.longest = entry.frames + count, max(entry.longest, count)
    if found.notes:
        entry.videos.append({**told, "state": "extracted", "notes": list(found.notes)})


def os_text(video_id: bytes) -> str:
    """The id as text, from which the same bytes can be made."""
    return video_id.decode("utf-8", "backslashreplace")


def settings_of(config: ExtractConfig) -> Settings:
    """The flags that determine the features."""
    return Settings(config.frames_per_second, config.max_frames, config.batch_size)


def ranges_of(written: tuple[str, ...], chosen: Sequence[Chosen]) -> list[Any]:
    """The range of the bytes of each feature at frame level, (low, high) or `LEARNED`; None for floats."""
    return parse_ranges(written or ("usual",), len(chosen), [one.extractor.bytes_range for one in chosen])
