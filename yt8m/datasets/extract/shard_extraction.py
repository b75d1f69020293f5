"""The extraction of one shard, and the journal of the finished shards.

For each shard the features of its videos are computed, and a file is written at each level. Then the journal, the
folder `OUT/.extract`, gets a file for the shard. After a kill, the next start skips the shards that have such a file.
The journal is removed when all records are in their final folders.

A shard depends only on its own videos and on the flags. So any process can extract it, and the shards can be extracted
in any order.

A learned range of bytes is known only after the last video. Until then the shards in `OUT/.extract/floats` hold the
frames as floats. Then `quantize_shards` writes the final shards. If it is killed, the next start writes all of them
again; this is fast compared with the extraction.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from yt8m import cores, storage, terminal
from yt8m.datasets.extract.computing import ChosenExtractor, Clip, Computer, Features, LocatedExtractor, Settings
from yt8m.datasets.extract.extract_config import ExtractConfig
from yt8m.datasets.make_records.features import LEARNED, learn_ranges, parse_ranges
from yt8m.datasets.make_records.output import Output
from yt8m.datasets.make_records.saved_progress import FileVersions, RecordsProgress, SavedProgress, read_shards
from yt8m.datasets.make_records.span_cells import ClassSpan, Grid, classes_within
from yt8m.extractors import sampling_rules
from yt8m.extractors.decoder_pool import DecoderPool, Limits
from yt8m.records import data_format, encoding, shards
from yt8m.records.data_format import DataFormat, FeatureFormat, Range
from yt8m.records.manifest import Shard
from yt8m.records.record_parser import Example, RecordParser
from yt8m.types import Closing

_FOLDER = ".extract"  # the folder of the journal, in the folder of the data set


class VideoVersion(NamedTuple):
    """The version of the video file of a row.

    Attributes:
      text: its size, time and a checksum of some of its parts; empty for a missing file.
      status: the inode and its time, see `Stamp`.
    """

    path: str
    text: str
    status: str


@dataclass
class FinishedShard(SavedProgress):
    """The content of a shard's journal file.

    Attributes:
      levels: {level: what was written to the shard}; empty if all videos were bad.
      positives: {class: number of videos}.
      longest: the largest number of frames of a video.
      lengths: {number of frames, as a text: number of videos with so many}.
      spans: {what is said of the spans of its videos: number}, see `span_cells`.
      bad: {number of a row: why its video was left out}.
      versions: the version of each row's video file, as a text; empty for a missing file.
      statuses: the status of each of these files; empty in the entry of an earlier version.
      checksums: a checksum of each of these files, see `storage.dense_samples`; None if it cannot be read.
    """

    inputs: str
    written: list[str]
    levels: Mapping[str, Shard] = field(default_factory=dict)
    positives: dict[str, int] = field(default_factory=dict)
    frames: int = 0
    longest: int = 0
    lengths: dict[str, int] = field(default_factory=dict)
    cut: int = 0
    spans: dict[str, int] = field(default_factory=dict)
    videos: list[dict[str, Any]] = field(default_factory=list)
    bad: dict[str, str] = field(default_factory=dict)
    versions: Sequence[str] = ()
    statuses: Sequence[str] = ()
    checksums: Sequence[int | None] = ()

    def __post_init__(self) -> None:
        self.levels = read_shards(self.levels)

    def has_changed_videos(self, versions: Sequence[VideoVersion]) -> bool:
        """Whether a video file was replaced: its version differs from the saved one. A file may be removed.

        A file that is moved to the place of another may be the older one. So its version need not be larger. If nothing
        but the status of a file has changed, it may be a copy, and its checksum tells.

        Args:
          versions: the version of each row's video file now.
        """
        texts = (version.text for version in versions)
        if any(now not in ("", saved) for saved, now in itertools.zip_longest(self.versions, texts)):
            return True
        saved_files = zip(versions, self.statuses, self.checksums, strict=False)
        doubtful = {version.path: saved for version, status, saved in saved_files if version.status not in ("", status)}
        return storage.dense_samples(list(doubtful)) != {
            path: saved for path, saved in doubtful.items() if saved is not None
        }


class Journal:
    """Records which shards of an extraction are finished.

    Args:
      folders: {level: the folder in which its shards are written}.

    Attributes:
      finished: {shard: its entry} of the finished shards that were added, or loaded from files of an earlier start.
    """

    def __init__(self, out: str, inputs: str, folders: Mapping[str, str]) -> None:
        self.out, self._folder = out, storage.join(out, _FOLDER)
        self.inputs, self._folders = inputs, dict(folders)
        self.finished: dict[str, FinishedShard] = {}

    def new_entry(self, versions: Sequence[VideoVersion]) -> FinishedShard:
        """An empty entry for a shard with these video files, which are read now."""
        paths, texts, statuses = zip(*versions, strict=True)
        checksums = storage.dense_samples(paths)
        return FinishedShard(
            *(self.inputs, list(self._folders)),
            versions=texts,
            statuses=statuses,
            checksums=[checksums.get(path) for path in paths],
        )

    def load(self, shard: str, versions: Sequence[VideoVersion]) -> bool:
        """Loads the entry of a shard if the shard is finished; returns whether it is.

        A shard is not finished if it was made from other inputs, if a level lacks it or its file, or if one of its
        video files was replaced later.

        Args:
          versions: the version of each row's video file now.
        """
        finished = FinishedShard.read(self.path(shard))
        if (
            finished is None
            or finished.inputs != self.inputs
            or finished.has_changed_videos(versions)
            or not set(self._folders) <= set(finished.written)
            or not self._has_files(shard, finished)
        ):
            return False
        self.finished[shard] = finished
        return True

    def _has_files(self, shard: str, entry: FinishedShard) -> bool:
        """Whether the files of a shard are there, as long as they were written; the folder may have been removed."""
        paths = {level: storage.join(folder, shard) for level, folder in self._folders.items() if level in entry.levels}
        return all(
            storage.exists(path) and storage.size(path) == entry.levels[level].bytes for level, path in paths.items()
        )

    def add(self, shard: str, entry: FinishedShard) -> None:
        """Records that a shard is finished: writes its entry to its file."""
        entry.write(self.path(shard))
        self.finished[shard] = entry

    def sort_entries(self, shards: Sequence[str]) -> None:
        """Puts the entries into the order of `shards`, so that reports do not depend on the order of the extraction."""
        self.finished = {shard: self.finished[shard] for shard in shards if shard in self.finished}

    def path(self, shard: str) -> str:
        """The path of the journal's file about `shard`, the path of a shard in the folder of a level.

        A text without a slash, such as `done`, gives the path of a file that belongs to no shard.
        """
        return storage.join(self._folder, f"{shard.replace('/', '-')}.json")

    def remove(self) -> None:
        """Removes the folder of the journal if no level has records that are not yet in their final folder."""
        is_unfinished = any(name.endswith(".making") for name in storage.names_in(self.out))
        if storage.exists(self._folder) and not is_unfinished:
            storage.remove_tree(self._folder)

    def fill_progress(self, output: Output, level: str, features: Sequence[FeatureFormat], files: FileVersions) -> None:
        """Sets the progress of `output` to what it would be if `output` had written the shards of its level."""
        progress = RecordsProgress(self.inputs, [list(feature) for feature in features], files=files)
        for shard, entry in self.finished.items():
            split = shard.split("/")[0]
            if level in entry.levels:
                progress.shards[shard] = entry.levels[level]
            counts = progress.positives.setdefault(split, [])
            for index, count in entry.positives.items():
                counts += [0] * (int(index) + 1 - len(counts))
                counts[int(index)] += count
            progress.frames[split] = progress.frames.get(split, 0) + entry.frames
            lengths = progress.lengths.setdefault(split, {})
            for length, videos in entry.lengths.items():
                lengths[length] = lengths.get(length, 0) + videos
            if entry.spans and level == "frame":
                spans = progress.spans.setdefault(split, {})
                spans |= {text: spans.get(text, 0) + count for text, count in entry.spans.items()}
            progress.longest, progress.cut = max(progress.longest, entry.longest), progress.cut + entry.cut
        output.progress = progress

    def bad(self) -> dict[int, str]:
        """{number of a row: why its video was left out}, over all finished shards."""
        return {int(number): why for entry in self.finished.values() for number, why in entry.bad.items()}

    def report_lines(self) -> list[Mapping[str, Any]]:
        """The lines of extract.jsonl about the videos of finished shards."""
        return [line for entry in self.finished.values() for line in entry.videos]


def floats_folder(out: str) -> str:
    """The folder of the shards with frames as floats, which are written while the ranges are not yet learned."""
    return storage.join(out, _FOLDER, "floats")


class ProgressLine(terminal.CountedWork):
    """Shows, in a `with` block, the number of finished videos, the decoded seconds per second, and the time left."""

    def __init__(self, videos: int, done: int) -> None:
        super().__init__(videos, "videos", lambda line: print(line, file=sys.stderr), done, "extracting")
        self._done, self._seconds = done, 0.0

    def advance(self, seconds: float) -> None:
        """Adds a video, of which `seconds` seconds were decoded."""
        self._done, self._seconds = self._done + 1, self._seconds + seconds
        self.show(self._done, self._seconds, "s of video")


class TableRow(NamedTuple):
    """A row of the table.

    Attributes:
      number: number of the row, from 1.
      classes: the classes of the video, ascending.
      spans: the spans of the video; None if the rows of the table are no spans.
      seconds: the length of the video as a table of spans says it; 0 if it does not.
    """

    number: int
    id: bytes
    classes: tuple[int, ...]
    clip: Clip
    spans: Sequence[ClassSpan] | None = None
    seconds: float = 0.0

    @property
    def hashed_spans(self) -> list[tuple[Any, ...]]:
        """What the records depend on; of usual spans it is what earlier versions had."""
        return [span if span.denied else span[: 4 if span.is_part else 3] for span in self.spans or ()]


class ShardExtractor(Closing):
    """Extracts shards with the opened extractors. Use it in a `with` block.

    Args:
      folders: {level: the folder to write its shards to}.
    """

    def __init__(self, config: ExtractConfig, located: Sequence[LocatedExtractor], folders: Mapping[str, str]) -> None:
        self._config, self.folders = config, folders
        self._features = [each.extractor.feature for each in located]
        ranges = ranges_of(config.ranges, located)
        # As long as a range is to be learned, the shards hold all features as floats; see `quantize_shards`.
        self._ranges = [None] * len(located) if LEARNED in ranges else ranges
        self._computer = Computer(located, settings_of(config, located))
        self.sizes = self._computer.sizes

    def close(self) -> None:
        """Closes the extractors."""
        self._computer.close()

    def pool(self) -> DecoderPool:
        """Starts the processes that decode; the pool must be closed in the thread that calls this."""
        return DecoderPool(self._config.processes, Limits(self._config.decode_seconds, self._config.decode_memory))

    def extract(
        self,
        shard: str,
        rows: Sequence[TableRow],
        entry: FinishedShard,
        pool: DecoderPool,
        advance: Callable[[float], None],
    ) -> FinishedShard:
        """Extracts the videos of a shard and writes it at each level.

        Args:
          entry: an empty entry of the journal, to be filled in.
          advance: function that is called after each video with the number of decoded seconds.
        """
        threads = max(1, cores.usable() // self._config.processes)
        clips = [row.clip for row in rows]
        paths = {level: storage.join(folder, shard) for level, folder in self.folders.items()}
        with ShardFiles(paths, self._features, self._ranges) as files:
            for row, features in zip(rows, self._computer.features(clips, pool, threads), strict=True):
                if problem := self._wrong_length(row, features):
                    features = features._replace(bad=problem)
                context: dict[str, bytes] = {}
                if row.spans is not None and not features.bad:
                    row, context = self._with_cells(entry, row, row.spans, features)
                _add_video(entry, shard, row, features)
                if not features.bad:
                    files.add(row.id, row.classes, features.arrays, context)
                advance(features.seconds)
        entry.levels = files.levels
        return entry

    def _wrong_length(self, row: TableRow, features: Features) -> str:
        """Why the spans of a row do not fit to its video, as far as the table says; empty if they do."""
        if row.spans is None or features.bad or _is_cut(features):
            return ""
        return grid_of(self._config).wrong_length(row.seconds, len(features.arrays[0]))

    def _with_cells(
        self, entry: FinishedShard, row: TableRow, spans: Sequence[ClassSpan], features: Features
    ) -> tuple[TableRow, dict[str, bytes]]:
        """A row with the classes whose spans are stored, and what its record of frames stores of them.

        Records of whole videos alone store no cells, so none are counted.
        """
        frames = len(features.arrays[0])
        if "frame" not in self._config.level:
            classes = classes_within(spans, frames / self._config.frames_per_second)
            return row._replace(classes=tuple(number for number in row.classes if number in classes)), {}
        cells, said = grid_of(self._config).cells(spans, frames)
        for text, count in said.items():
            entry.spans[text] = entry.spans.get(text, 0) + count
        return row._replace(classes=cells.only_shown(row.classes)), cells.context()


def grid_of(config: ExtractConfig) -> Grid:
    """The grid on which spans are stored."""
    return Grid.with_cells(config.segment_size, config.frames_per_second, config.annotated)


def _is_cut(features: Features) -> bool:
    """Whether later frames of a video were left out."""
    return any(note.startswith("only the first") for note in features.notes)


def _add_video(entry: FinishedShard, shard: str, row: TableRow, features: Features) -> None:
    """Adds a video of a shard to the counts and the report in the entry of the shard."""
    video = {"id": shards.id_text(row.id), "path": row.clip.path, "shard": shard}
    if features.bad:
        entry.bad[str(row.number)] = features.bad
        entry.videos.append({**video, "state": "left out", "reason": features.bad})
        return
    count = len(features.arrays[0])
    entry.cut += _is_cut(features)
    for index in row.classes:
        entry.positives[str(index)] = entry.positives.get(str(index), 0) + 1
    entry.frames, entry.longest = entry.frames + count, max(entry.longest, count)
    entry.lengths[str(count)] = entry.lengths.get(str(count), 0) + 1
    if features.notes:
        entry.videos.append({**video, "state": "extracted", "notes": list(features.notes)})


def settings_of(config: ExtractConfig, chosen: Sequence[ChosenExtractor | LocatedExtractor]) -> Settings:
    """The settings that determine the features, besides the extractors; `config.rules` must be chosen already."""
    rule = sampling_rules.rule_of(config.rules, [choice.extractor.sampling for choice in chosen])
    return Settings(config.frames_per_second, config.frame_limit, config.batch_size, rule, config.max_bad_packets)


def ranges_of(texts: tuple[str, ...], chosen: Sequence[ChosenExtractor | LocatedExtractor]) -> list[Any]:
    """The range of values that the bytes of each feature represent at frame level.

    Args:
      texts: the value of --ranges; empty for the usual range of each extractor.

    Returns:
      For each extractor (low, high), `LEARNED`, or None if its feature is stored as floats.
    """
    return parse_ranges(texts or ("usual",), len(chosen), [choice.extractor.bytes_range for choice in chosen])


class _NothingWrittenError(Exception):
    """All videos of a shard are bad. `ShardFiles` passes this to its files, so that no empty file appears."""


class ShardFiles:
    """Writes one shard at each level. Use it in a `with` block; the files appear at its end.

    If no video was added, no file appears, and files that an earlier start wrote at these paths are removed.

    Args:
      paths: {level: path of the shard}.
      ranges: the range of values that the bytes of each feature represent at frame level; None for floats.

    Attributes:
      levels: {level: what was written to its shard}, complete at the end of the block; empty if no video was added.
    """

    def __init__(self, paths: Mapping[str, str], features: Sequence[str], ranges: Sequence[Range | None]) -> None:
        self._paths, self._features, self._ranges = paths, features, ranges
        self._files, self._writers = contextlib.ExitStack(), dict[str, Any]()
        self.levels: dict[str, Shard] = {}

    def __enter__(self) -> ShardFiles:
        with contextlib.ExitStack() as opening:
            for level, path in self._paths.items():
                # A killed start may have left an unfinished file. Nobody is still writing that file, because only one
                # command at a time may write into the folder of the data set.
                storage.discard_unfinished(path)
                self._writers[level] = opening.enter_context(storage.write_atomic(path))
            self._files = opening.pop_all()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Completes the files. If the block failed or added no video, discards them instead."""
        if error is None and not self.levels:
            error = _NothingWrittenError()
        self._files.__exit__(type(error) if error else None, error, trace)
        if isinstance(error, _NothingWrittenError):
            for path in filter(storage.exists, self._paths.values()):
                storage.remove(path)

    def add(
        self,
        video_id: bytes,
        classes: Sequence[int],
        arrays: Sequence[NDArray[np.float32]],
        others: Mapping[str, bytes] | None = None,
    ) -> None:
        """Adds a video to the shard of each level.

        Args:
          classes: classes of the video, ascending.
          arrays: float32 [T, size] for each feature.
          others: {name: encoded Feature} of further entries of the context at frame level.
        """
        context = encoding.Contexts([video_id], np.zeros(len(classes), np.int64), np.array(classes, np.int64))
        stored: dict[str, NDArray[Any]] = {}
        means: dict[str, NDArray[np.float32]] = {}
        for name, values, bounds in zip(self._features, arrays, self._ranges, strict=True):
            stored[name] = dequantized = values
            if bounds:  # the mean at video level is taken over the same values that a reader gets at frame level
                stored[name] = data_format.quantized(values, bounds)
                dequantized = data_format.dequantized(stored[name], bounds)
            means[f"mean_{name}"] = dequantized.mean(axis=0, dtype=np.float64).astype(np.float32)
        if "frame" in self._paths:
            self._write("frame", encoding.frame_records(context, 0, stored, others))
        if "video" in self._paths:
            rows = {name: values[np.newaxis] for name, values in means.items()}
            for records in encoding.VideoRecords(context, np.zeros(1, np.int64), lambda _: rows):
                self._write("video", records)

    def _write(self, level: str, records: NDArray[np.uint8]) -> None:
        content = records.tobytes()
        self._writers[level].write(content)
        written = Shard(len(records), len(content), f"{google_crc32c.value(content):08x}")
        earlier = self.levels.get(level)
        self.levels[level] = earlier.extend(written) if earlier else written


def quantize_shards(
    journal: Journal, outputs: Mapping[str, Output], floats: Sequence[FeatureFormat], ranges: Sequence[Any], train: str
) -> list[Range | None]:
    """Learns the ranges, quantizes the extracted floats with them, and writes the shards of each level.

    Args:
      journal: the journal of all shards, which hold floats; the entries get the numbers, sizes and checksums of the
        final shards.
      outputs: {level: its output}.
      floats: the features as they were extracted, without ranges.
      ranges: for each feature (low, high), `LEARNED`, or None if it stays float.

    Returns:
      For each feature (low, high), or None.
    """
    names = [feature.name for feature in floats]
    parser = RecordParser(DataFormat("frame", tuple(floats)))
    # Without training videos, as in a new test set, the ranges are those of all videos.
    shards = [shard for shard in journal.finished if shard.startswith(f"{train}/")] or list(journal.finished)
    values = (video.values for shard in shards for video, _ in _read_floats(journal, shard, parser))
    learned = learn_ranges(ranges, values)
    for shard, entry in journal.finished.items():
        paths = {level: storage.join(output.making, shard) for level, output in outputs.items()}
        with ShardFiles(paths, names, learned) as files:
            for video, others in _read_floats(journal, shard, parser):
                files.add(video.video_id, video.labels.tolist(), video.values, others)
        entry.levels = files.levels
    return learned


def _read_floats(journal: Journal, shard: str, parser: RecordParser) -> Iterator[tuple[Example, dict[str, bytes]]]:
    """Yields the videos of a shard in the journal's folder `floats`, and what their records store of spans.

    Yields none if all videos of the shard were bad.
    """
    if journal.finished[shard].levels:
        for record in shards.read_shard(storage.join(floats_folder(journal.out), shard)):
            context = shards.parse(record, with_lists=False) if journal.finished[shard].spans else None
            yield parser.frames(record), context.encoded(shards.SEGMENT_LISTS) if context else {}
