"""The extraction of one shard: computes the features of its videos, and writes its file at each level.

A shard depends only on its own videos and on the flags, so any process can extract it, in any order.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.commands.extract.computing import Chosen, Clip, Computer, Features, Settings
from yt8m.commands.extract.journal import Finished
from yt8m.commands.extract.weights import Weights
from yt8m.commands.make_records.features import parse_range
from yt8m.errors import UsageError
from yt8m.extractors.decoder_pool import DecoderPool, Limits
from yt8m.records import data_format, encoding
from yt8m.records.data_format import FeatureFormat, Range

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
    """

    def __init__(
        self, config: ExtractConfig, chosen: Sequence[Chosen], found: Sequence[Weights], making: Mapping[str, str]
    ) -> None:
        self._config, self._chosen, self.making = config, chosen, making
        self._ranges = ranges_of(config.ranges, chosen)
        self._open = contextlib.ExitStack()
        self._computer = self._open.enter_context(Computer(chosen, found, settings_of(config)))

    def __enter__(self) -> ShardExtractor:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def close(self) -> None:
        """Closes the extractors."""
        self._open.close()

    def formats(self, level: str) -> list[FeatureFormat]:
        """The features as the records of a level hold them."""
        return [
            FeatureFormat(one.extractor.feature, size, bounds)
            if level == "frame"
            else FeatureFormat(f"mean_{one.extractor.feature}", size)
            for one, size, bounds in zip(self._chosen, self._computer.sizes, self._ranges, strict=True)
        ]

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
        with contextlib.suppress(_NothingWrittenError), contextlib.ExitStack() as files:
            writers = {level: _Writer(files, storage.join(folder, shard)) for level, folder in self.making.items()}
            clips = [row.clip for row in rows]
            for row, found in zip(rows, self._computer.features(clips, pool, threads), strict=True):
                _note(entry, shard, row, found)
                if not found.bad:
                    self._append(writers, row, found.arrays)
                advance(found.seconds)
            for level, writer in writers.items():
                if not writer.records:
                    raise _NothingWrittenError  # so that no empty file appears
                entry.levels[level] = [writer.records, writer.bytes, writer.crc]
        return entry

    def _append(self, writers: dict[str, _Writer], row: TableRow, arrays: Sequence[NDArray[np.float32]]) -> None:
        places = np.zeros(len(row.classes), np.int64)
        context = encoding.Contexts([row.id], places, np.array(row.classes, np.int64))
        stored: dict[str, NDArray[Any]] = {}
        means: dict[str, NDArray[np.float32]] = {}
        for one, values, bounds in zip(self._chosen, arrays, self._ranges, strict=True):
            name, read = one.extractor.feature, values
            stored[name] = values
            if bounds:  # the mean is that of the frames as a reader of the frame records gets them
                stored[name] = data_format.quantized(values, bounds)
                read = data_format.dequantized(stored[name], bounds)
            means[f"mean_{name}"] = read.mean(axis=0, dtype=np.float64).astype(np.float32)
        if "frame" in writers:
            writers["frame"].write(encoding.frame_records(context, 0, stored))
        if "video" in writers:
            size = sum(values.nbytes for values in means.values())
            rows = {name: values[np.newaxis] for name, values in means.items()}
            for records in encoding.video_records(context, np.zeros(1, np.int64), size, lambda _: rows):
                writers["video"].write(records)


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


def ranges_of(written: Sequence[str], chosen: Sequence[Chosen]) -> list[Range | None]:
    """The range of the bytes of each feature at frame level; None for floats."""
    if len(written) not in (0, 1, len(chosen)):
        raise UsageError(
            f"--ranges={','.join(written)} has {len(written)} ranges, and there are {len(chosen)} extractors; give one "
            "each, or one."
        )
    whole = list(written or ["usual"]) * (len(chosen) if len(written) < 2 else 1)
    given = f"--ranges={','.join(written)}"
    return [
        one.extractor.bytes_range
        if text == "usual"
        else None
        if text == "floats"
        else parse_range(text, given, "usual")
        for text, one in zip(whole, chosen, strict=True)
    ]


class _NothingWrittenError(Exception):
    """No video of a shard is good."""


class _Writer:
    """A shard that is being written; it appears under its name when `files` is closed.

    Attributes:
      records, bytes, crc: number of records, size, and checksum so far.
    """

    def __init__(self, files: contextlib.ExitStack, path: str) -> None:
        storage.discard_unfinished(path)  # what a killed start left; the lock keeps others away
        self._file = files.enter_context(storage.write_atomic(path))
        self.records = self.bytes = self.crc = 0

    def write(self, records: NDArray[np.uint8]) -> None:
        """Adds framed records, one in each row, as `encoding` makes them."""
        content = records.tobytes()
        self._file.write(content)
        self.records, self.bytes = self.records + len(records), self.bytes + len(content)
        self.crc = google_crc32c.extend(self.crc, content)
