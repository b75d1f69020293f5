"""The extraction of one shard: computes the features of its videos, and writes its file at each level.

A shard depends only on its own videos and on the flags, so any process can extract it, in any order.

A learned range of bytes is known only after the last video. Until then the shards in `OUT/.extract/floats` hold the
frames as floats. Then `coded` writes the final shards. If it is killed, the next start writes all of these again, which
takes a small part of the time of the extraction.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.datasets.extract.computing import Chosen, Clip, Computer, Features, Settings
from yt8m.datasets.extract.journal import Finished, Journal
from yt8m.datasets.extract.weights import Weights
from yt8m.datasets.make_records.features import LEARNED, learn_ranges, parse_ranges
from yt8m.datasets.make_records.output import Output, WrittenShard
from yt8m.extractors.decoder_pool import DecoderPool, Limits
from yt8m.records import data_format, encoding, shards
from yt8m.records.data_format import DataFormat, FeatureFormat, Range
from yt8m.records.record_parser import Example, RecordParser
from yt8m.types import Closing

if TYPE_CHECKING:
    from yt8m.datasets.extract import ExtractConfig


class TableRow(NamedTuple):
    """A row of the table: its number, the id, the classes and the video."""

    number: int
    id: bytes
    classes: tuple[int, ...]
    clip: Clip


class ShardExtractor(Closing):
    """The opened extractors, and the folders that shards are written to. Use it in a `with` block.

    Args:
      config: the flags.
      chosen: the extractors.
      weights_of: the weights of each.
      making: {level: the folder that its shards are written to}.

    Attributes:
      making: see above.
      sizes: number of values of each feature.
    """

    def __init__(
        self, config: ExtractConfig, chosen: Sequence[Chosen], weights_of: Sequence[Weights], making: Mapping[str, str]
    ) -> None:
        self._config, self.making = config, making
        self._features = [choice.extractor.feature for choice in chosen]
        ranges = ranges_of(config.ranges, chosen)
        self._ranges = [None] * len(chosen) if LEARNED in ranges else ranges  # until they are learned
        self._computer = Computer(chosen, weights_of, settings_of(config))
        self.sizes = self._computer.sizes

    def close(self) -> None:
        """Closes the extractors."""
        self._computer.close()

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
            for row, features in zip(rows, self._computer.features(clips, pool, threads), strict=True):
                _note(entry, shard, row, features)
                if not features.bad:
                    files.add(row.id, row.classes, features.arrays)
                advance(features.seconds)
        entry.levels = files.levels
        return entry


def _note(entry: Finished, shard: str, row: TableRow, features: Features) -> None:
    video = {"id": os_text(row.id), "path": row.clip.path, "shard": shard}
    if features.bad:
        entry.bad[str(row.number)] = features.bad
        entry.videos.append({**video, "state": "left out", "reason": features.bad})
        return
    count = len(features.arrays[0])
    entry.cut += any(note.startswith("only the first") for note in features.notes)
    for index in row.classes:
        entry.positives[str(index)] = entry.positives.get(str(index), 0) + 1
    entry.frames, entry.longest = entry.frames + count, max(entry.longest, count)
    if features.notes:
        entry.videos.append({**video, "state": "extracted", "notes": list(features.notes)})


def os_text(video_id: bytes) -> str:
    """The id as text, from which the same bytes can be made."""
    return video_id.decode("utf-8", "backslashreplace")


def settings_of(config: ExtractConfig) -> Settings:
    """The flags that determine the features."""
    return Settings(config.frames_per_second, config.max_frames, config.batch_size)


def ranges_of(written: tuple[str, ...], chosen: Sequence[Chosen]) -> list[Any]:
    """The range of the bytes of each feature at frame level, (low, high) or `LEARNED`; None for floats."""
    return parse_ranges(written or ("usual",), len(chosen), [choice.extractor.bytes_range for choice in chosen])


class _NothingWrittenError(Exception):
    """No video of a shard is good."""


class ShardFiles:
    """One shard of each level, while it is written. Use it in a `with` block; the files appear at its end.

    If no video was added, no file appears, and a file that an earlier start wrote at such a path is removed.

    Args:
      paths: {level: path of the shard}.
      features: the names of the features at frame level.
      ranges: the range of the bytes of each feature at frame level; None for floats.

    Attributes:
      levels: {level: what was written of its shard} after the block; empty without a video.
    """

    def __init__(self, paths: Mapping[str, str], features: Sequence[str], ranges: Sequence[Range | None]) -> None:
        self._paths, self._features, self._ranges = paths, features, ranges
        self._files, self._writers = contextlib.ExitStack(), dict[str, Any]()
        self.levels: dict[str, WrittenShard] = {}

    def __enter__(self) -> ShardFiles:
        with contextlib.ExitStack() as opening:
            for level, path in self._paths.items():
                storage.discard_unfinished(path)  # what a killed start left; the lock keeps others away
                self._writers[level] = opening.enter_context(storage.write_atomic(path))
            self._files = opening.pop_all()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if error is None and not self.levels:
            error = _NothingWrittenError()  # so that no empty file appears
        self._files.__exit__(type(error) if error else None, error, trace)
        if isinstance(error, _NothingWrittenError):
            for path in filter(storage.exists, self._paths.values()):
                storage.remove(path)

    def add(self, video_id: bytes, classes: Sequence[int], arrays: Sequence[NDArray[np.float32]]) -> None:
        """Adds a video to each level.

        Args:
          video_id: its id.
          classes: its classes, ascending.
          arrays: [T, size] of each feature.
        """
        context = encoding.Contexts([video_id], np.zeros(len(classes), np.int64), np.array(classes, np.int64))
        stored: dict[str, NDArray[Any]] = {}
        means: dict[str, NDArray[np.float32]] = {}
        for name, values, bounds in zip(self._features, arrays, self._ranges, strict=True):
            stored[name] = read = values
            if bounds:  # the mean is that of the frames as a reader of the frame records gets them
                stored[name] = data_format.quantized(values, bounds)
                read = data_format.dequantized(stored[name], bounds)
            means[f"mean_{name}"] = read.mean(axis=0, dtype=np.float64).astype(np.float32)
        if "frame" in self._paths:
            self._write("frame", encoding.frame_records(context, 0, stored))
        if "video" in self._paths:
            rows = {name: values[np.newaxis] for name, values in means.items()}
            for records in encoding.VideoRecords(context, np.zeros(1, np.int64), lambda _: rows):
                self._write("video", records)

    def _write(self, level: str, records: NDArray[np.uint8]) -> None:
        content = records.tobytes()
        self._writers[level].write(content)
        before = self.levels.get(level, WrittenShard())
        self.levels[level] = before.extended(len(records), len(content), google_crc32c.value(content))


def coded(
    journal: Journal, outputs: Mapping[str, Output], floats: Sequence[FeatureFormat], ranges: Sequence[Any], train: str
) -> list[Range | None]:
    """Learns the ranges, quantizes the extracted floats with them, and writes the shards of each level.

    Args:
      journal: the finished shards, all of them; gets the numbers, sizes and checksums of the new ones.
      outputs: {level: its output}.
      floats: the features as they were extracted.
      ranges: the range of each feature, `LEARNED`, or None.
      train: the split whose values give the learned ranges.
    """
    names = [feature.name for feature in floats]
    parser = RecordParser(DataFormat("frame", tuple(floats)))
    values = (
        video.values
        for shard in journal.finished
        if shard.startswith(f"{train}/")
        for video in _read(journal, shard, parser)
    )
    learned = learn_ranges(ranges, values)
    for shard, entry in journal.finished.items():
        paths = {level: storage.join(output.making, shard) for level, output in outputs.items()}
        with ShardFiles(paths, names, learned) as files:
            for video in _read(journal, shard, parser):
                files.add(video.video_id, video.labels.tolist(), video.values)
        entry.levels = files.levels
    return learned


def _read(journal: Journal, shard: str, parser: RecordParser) -> Iterator[Example]:
    """The videos in a shard whose features are stored as floats."""
    if journal.finished[shard].levels:
        yield from map(parser.frames, shards.read_shard(storage.join(journal.floats, shard)))
