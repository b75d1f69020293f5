"""The folder of records: filled under a hidden name, continued after a kill, and renamed when it is complete.

`OUT/.video.making/` becomes `OUT/video/`. It contains `summary.json` and a folder for each split with the shards and
their manifest. If OUT is in a bucket, the folder is filled on this machine, and sent when it is complete.

`.progress.json` says which rows are done and which size each shard had at that time. Before it is written, the shards
are synced to the disk. After a kill or a power cut, the next start compares the shards with it, cuts them to these
sizes and continues with the next row.

The records that are appended to a shard at once are called a chunk.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import google_crc32c
import numpy as np
from absl import logging
from numpy.typing import NDArray

from yt8m import storage
from yt8m.datasets.make_records.classes import Classes
from yt8m.errors import RunError, UsageError
from yt8m.records import manifest, shards, vocabulary
from yt8m.records.data_format import DataFormat, FeatureFormat
from yt8m.records.manifest import Shard
from yt8m.storage import sending
from yt8m.storage.base import Stamp

PROGRESS, SUMMARY = ".progress.json", "summary.json"
_SAVE_INTERVAL = 2.0  # least time in seconds between two writes of .progress.json
_INTERVAL_PER_SAVE = 10  # and at least this many times the duration of the last write
_WRITER_THREADS, _MOST_PENDING = 2, 6  # number of threads that write, and of chunks that may wait for them


class WrittenShard(NamedTuple):
    """What was written to a shard so far.

    Attributes:
      records: number of records.
      size: bytes of all records.
      crc: their checksum (CRC-32C).
      last_offset: offset of the last chunk in bytes.
      last_crc: checksum of the last chunk.
    """

    records: int = 0
    size: int = 0
    crc: int = 0
    last_offset: int = 0
    last_crc: int = 0

    def extend(self, records: int, size: int, crc: int) -> WrittenShard:
        """The same after a further chunk."""
        joined_crc = shards.joined_crc(self.crc, crc, size)
        return WrittenShard(self.records + records, self.size + size, joined_crc, self.size, crc)

    def damage(self, path: str, is_growing: bool) -> str:
        """Describes how the size or the last chunk of the file differs from what was written; empty if neither does.

        Args:
          path: the file.
          is_growing: whether more may have been written since.
        """
        size = storage.size(path) if storage.exists(path) else 0
        if size < self.size or (size > self.size and not is_growing):
            return f"{path} has {size} bytes, but {self.size} were written"
        if not self.size:  # there may be no file
            return ""
        with storage.open_read(path) as file:
            file.seek(self.last_offset)
            last = file.read(self.size - self.last_offset)
        return "" if google_crc32c.value(last) == self.last_crc else f"the end of {path} is not what was written"


class SavedProgress:
    """Progress that a command saves in a JSON file, so that the next start can continue. Base class of dataclasses.

    Attributes:
      inputs: hash of all inputs that determine the records.
      newest: the newest version of the videos' files, see `newest_version`; None if it was not saved.
    """

    inputs: str
    newest: int | None

    @classmethod
    def read(cls, path: str) -> Self | None:
        """Reads the progress from a file; None if there is no valid file."""
        try:
            return cls(**storage.read_json(path))
        except (RunError, ValueError, TypeError):
            return None

    def matches(self, inputs: str, newest: int) -> bool:
        """Whether the work was done for these inputs, and no file of a video was rewritten since."""
        return self.inputs == inputs and (self.newest is None or newest <= self.newest)


@dataclass
class RecordsProgress(SavedProgress):
    """How many of the records have been written: the content of .progress.json.

    Attributes:
      features: the features and, for bytes, their ranges.
      rows: number of rows of the table that are done.
      begun: number of videos of each split that have a place in a shard, including those that turned out bad.
      shards: {path in the folder: the values of a `WrittenShard`}.
      positives: {split: number of videos of each class}.
      frames: {split: number of frames}.
      longest: the largest number of frames of a video.
      cut: number of videos that were cut to the limit of frames.
      corrected: {split: numbers of labels that decisions have added and removed}.
      bad: {number of a row: what is wrong with it}, for rows that were found bad while the records were written.
    """

    inputs: str
    features: list[Any]
    rows: int = 0
    begun: list[int] = field(default_factory=list)
    shards: dict[str, Sequence[Any]] = field(default_factory=dict)
    positives: dict[str, list[int]] = field(default_factory=dict)
    frames: dict[str, int] = field(default_factory=dict)
    longest: int = 0
    cut: int = 0
    corrected: dict[str, list[int]] = field(default_factory=dict)
    bad: dict[str, str] = field(default_factory=dict)
    complete: bool = False
    newest: int | None = None

    def damage(self, folder: str) -> str:
        """Describes how a shard in `folder` differs from what was written; empty if none does."""
        written = {shard: WrittenShard(*values) for shard, values in self.shards.items()}
        paths = {shard: storage.join(folder, shard) for shard in written}
        if storage.is_remote(folder):  # objects do not grow, and the store knows their sizes and checksums
            contents = sending.contents(folder)
            damages = (
                paths[shard] for shard in written if contents.get(shard) != (written[shard].size, written[shard].crc)
            )
            return next((f"{path} is not what was written" for path in damages), "")
        problems = (written[shard].damage(paths[shard], is_growing=not self.complete) for shard in written)
        return next(filter(None, problems), "")

    def formats(self) -> tuple[FeatureFormat, ...]:
        """The features."""
        return tuple(FeatureFormat(name, size, bounds and tuple(bounds)) for name, size, bounds in self.features)


class Output:
    """Writes the records of one level.

    Args:
      out: the folder of the data set.
      level: `video` or `frame`.
      videos: {split: number of videos}.
      shards: the number of shards of a split.
      making: the folder in which the records are made; by default a hidden folder in `out`.
    """

    def __init__(self, out: str, level: str, videos: Mapping[str, int], shards: int, making: str = "") -> None:
        self._out, self._level, self._videos, self._shards = out, level, dict(videos), shards
        self.final, self._hidden = storage.join(out, level), making_folder(out, level)
        self.making = making or self._hidden
        self._old = storage.join(out, f".{level}.old")
        self.progress = RecordsProgress("", [])
        self._saved_at, self._save_interval = time.monotonic(), _SAVE_INTERVAL
        self._unsynced: set[str] = set()  # shards that were written after the progress was saved
        self._writers = ThreadPoolExecutor(_WRITER_THREADS)
        self._pending = deque[tuple[str, Future[list[int]]]]()  # (shard, result) of each chunk, in order
        self._sizes: dict[str, int] = {}  # {shard: its size after the pending chunks}

    def resume(self, inputs: str, overwrite: bool, newest: int = 0) -> str:
        """Loads the progress of an earlier start; returns its state: `made`, `begun`, or empty if there was none.

        Args:
          inputs: hash of all inputs that determine the records.
          overwrite: whether other records may be replaced.
          newest: the newest version of the videos' files now.

        Raises:
          UsageError: the folder holds other records, or damaged ones.
        """
        finished, damage = RecordsProgress.read(storage.join(self.final, PROGRESS)), ""
        if finished is not None and finished.complete and finished.matches(inputs, newest):
            if self._is_half_renamed():
                storage.rename(self._hidden, self.final)
            damage = finished.damage(self.final)
            if not damage:
                self.progress = finished
                return "made"
        if damage and not overwrite:
            raise UsageError(
                f"{self.final} was made from this table and with these flags, but {damage}. Add --overwrite to make it "
                "again, or name another folder as --out."
            )
        if storage.exists(self.final) and not overwrite:
            raise UsageError(
                f"{self.final} already exists, and was made from another table, from other files or with other "
                "flags; add --overwrite to replace it, or name another folder as --out."
            )
        begun = RecordsProgress.read(storage.join(self.making, PROGRESS))
        if begun is not None and begun.matches(inputs, newest):
            damage = begun.damage(self.making)
            if not damage:
                self.progress = begun
                return "begun"
            logging.warning("the interrupted run cannot be continued: %s. All records are made again.", damage)
        if storage.exists(self.making):
            storage.remove_tree(self.making)
        return ""

    def _is_half_renamed(self) -> bool:
        """Whether a start was killed while it renamed the objects of a remote folder, the progress file first."""
        folder = self._hidden
        return (
            storage.is_remote(folder) and storage.exists(folder) and not storage.exists(storage.join(folder, PROGRESS))
        )

    def truncate_shards(self) -> None:
        """Removes what was appended after the progress was saved."""
        for split in self._videos:
            folder = storage.join(self.making, split)
            for name in storage.listdir(folder) if storage.exists(folder) else ():
                path, size = storage.join(folder, name), self._written(f"{split}/{name}").size
                storage.truncate(path, size) if size else storage.remove(path)

    def begin(self, inputs: str, features: Sequence[FeatureFormat], newest: int | None = None) -> None:
        """Starts from the first row, and removes what an earlier start wrote."""
        formats = [list(feature) for feature in features]
        self.progress = RecordsProgress(inputs, formats, begun=[0] * len(self._videos), newest=newest)
        self._save_progress()

    def assign_to_shards(
        self, splits: NDArray[np.int16], indices: NDArray[np.int64]
    ) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Yields (shard, indices) for the next videos. They fill the shards of their split in order and equally.

        Args:
          splits: the split of each row of a batch.
          indices: the indices of the videos in the batch.
        """
        for split, (name, videos) in enumerate(self._videos.items()):
            selected, first = indices[splits[indices] == split], self.progress.begun[split]
            numbers = (np.arange(first, first + len(selected)) * min(self._shards, videos)) // max(videos, 1)
            self.progress.begun[split] += len(selected)
            ends = np.flatnonzero(np.diff(numbers)) + 1
            for chunk in np.split(np.arange(len(selected)), ends) if len(selected) else ():
                yield f"{name}/{name}{numbers[chunk[0]]:04d}.tfrecord", selected[chunk]

    def append(self, shard: str, contents: Iterable[NDArray[np.uint8]], size: int) -> None:
        """Appends framed records to a shard, in a thread. The thread also iterates over `contents`.

        Args:
          shard: path of the shard in the folder.
          contents: arrays with a framed record in each row.
          size: bytes of all of them.
        """
        self.wait(most=_MOST_PENDING)
        offset = self._sizes.get(shard, self._written(shard).size)
        self._sizes[shard] = offset + size
        self._pending.append((shard, self._writers.submit(self.write_records, shard, offset, contents)))

    def write_records(self, shard: str, offset: int, contents: Iterable[NDArray[np.uint8]]) -> list[int]:
        """Writes records at an offset in a shard; returns their number, size and checksum."""
        count = size = crc = 0

        def counted() -> Iterator[NDArray[np.uint8]]:
            nonlocal count, size, crc
            for records in contents:
                yield records
                crc = google_crc32c.extend(crc, records)
                count, size = count + len(records), size + records.nbytes

        storage.write_at(storage.join(self.making, shard), offset, counted())
        return [count, size, crc]

    def wait(self, most: int = 0) -> None:
        """Waits until at most `most` chunks are waiting to be written."""
        while len(self._pending) > most:
            shard, chunk = self._pending.popleft()
            self.progress.shards[shard] = self._written(shard).extend(*chunk.result())
            self._unsynced.add(shard)

    def _written(self, shard: str) -> WrittenShard:
        return WrittenShard(*self.progress.shards.get(shard, ()))

    def close(self) -> None:
        """Stops the writers. Chunks that are still waiting are dropped; a later start writes them."""
        self._writers.shutdown(cancel_futures=True)

    def count(self, split: int, classes: NDArray[np.int64], frames: int) -> None:
        """Adds videos of a split, by the classes of their labels, to the counts of classes and frames."""
        name = list(self._videos)[split]
        before = np.array(self.progress.positives.get(name, []), np.int64)
        counts = np.bincount(classes, minlength=len(before))
        counts[: len(before)] += before
        self.progress.positives[name] = counts.tolist()
        self.progress.frames[name] = self.progress.frames.get(name, 0) + frames

    def count_changed_labels(self, split: int, added: int, removed: int) -> None:
        """Adds to the numbers of labels of a split that decisions have added and removed."""
        name = list(self._videos)[split]
        before = self.progress.corrected.get(name, [0, 0])
        self.progress.corrected[name] = [before[0] + added, before[1] + removed]

    def mark_done(self, rows: int) -> None:
        """Saves, every few seconds, that all rows up to this one are written."""
        self.progress.rows = rows
        if time.monotonic() > self._saved_at + self._save_interval:
            self._save_progress()

    def _save_progress(self) -> None:
        self.wait()
        begun = time.monotonic()
        storage.sync(storage.join(self.making, shard) for shard in sorted(self._unsynced))
        self._unsynced.clear()
        storage.write(storage.join(self.making, PROGRESS), json.dumps(vars(self.progress)))
        self._saved_at = time.monotonic()
        self._save_interval = max(_SAVE_INTERVAL, _INTERVAL_PER_SAVE * (self._saved_at - begun))

    def finish(
        self,
        classes: Classes,
        bad: Mapping[int, str],
        extractors: Sequence[Mapping[str, Any]] = (),
        corrections: Callable[[int, int], Mapping[str, Any]] = lambda *_: {},
    ) -> None:
        """Writes the manifests and the summary, then renames the vocabulary and the records to their final names.

        Args:
          classes: the classes.
          bad: {number of a row: what is wrong with it}.
          extractors: the extractors of the features, for the manifests.
          corrections: returns the manifest's entry for the decisions on labels; its arguments are the numbers of labels
            added and removed.

        Raises:
          RunError: no row was good, so there is no video.
        """
        self.wait()
        if not self.progress.shards:
            raise RunError("no video is left: every row is bad.")
        for split in self._videos:
            entry = corrections(*self.progress.corrected.get(split, [0, 0]))
            self._write_manifest(split, classes.size, extractors, entry)
        summary = json.dumps(self.summary(classes, bad), indent=1, ensure_ascii=False)
        storage.write(storage.join(self.making, SUMMARY), summary)
        self.progress.complete = True
        self._save_progress()
        if self.making != self._hidden:
            storage.refuse_lost_lock(self._out)
            sending.send_changed(self.making, self._hidden)
        storage.refuse_lost_lock(self._out)
        if classes.vocabulary is not None:
            counts = np.array(self._positives("train", len(classes.vocabulary)), np.int64)
            path = storage.join(self._out, vocabulary.NAME)
            vocabulary.write(path, dataclasses.replace(classes.vocabulary, counts=counts))
        self._update_other_levels(classes.size)  # before the renaming, so that it is repeated after a kill
        if storage.exists(self._old):
            storage.remove_tree(self._old)
        if storage.exists(self.final):
            storage.rename(self.final, self._old)
        storage.rename(self._hidden, self.final)
        if storage.exists(self._old):
            storage.remove_tree(self._old)

    def _write_manifest(
        self, split: str, count: int, extractors: Sequence[Mapping[str, Any]], corrections: Mapping[str, Any]
    ) -> None:
        shards = {
            storage.join(self.making, name): Shard(values[0], values[1], f"{values[2]:08x}")
            for name, values in self.progress.shards.items()
            if name.startswith(f"{split}/")
        }
        if shards:
            longest = self.progress.longest if self._level == "frame" else None
            positives = tuple(self._positives(split, count)) if split == "train" else None
            data = DataFormat(self._level, self.progress.formats(), False, count, longest, positives)
            path = storage.join(self.making, split, manifest.NAME)
            manifest.write(path, shards, data, extractors, split, corrections)

    def _positives(self, split: str, count: int) -> list[int]:
        counts = self.progress.positives.get(split, [])
        return counts + [0] * (count - len(counts))

    def _update_other_levels(self, count: int) -> None:
        """Updates the number of classes in the manifests of other levels, because all levels share the vocabulary."""
        for path in storage.glob(storage.join(self._out, "*", "*", manifest.NAME)):
            other_manifest = manifest.read(path)
            if other_manifest.data is not None and (other_manifest.data.num_classes or 0) < count:
                positives = other_manifest.data.positives
                if positives is not None:
                    positives = positives + (0,) * (count - len(positives))
                data = other_manifest.data._replace(num_classes=count, positives=positives)
                manifest.write(path, other_manifest.shards, data, *other_manifest[3:])

    def summary(self, classes: Classes, bad: Mapping[int, str]) -> dict[str, Any]:
        """The content of summary.json."""
        splits = {}
        for split in self._videos:
            shards = [values for name, values in self.progress.shards.items() if name.startswith(f"{split}/")]
            positives = self._positives(split, classes.size)
            absent = [index for index, count in enumerate(positives) if not count]
            splits[split] = {
                "videos": sum(values[0] for values in shards),
                "labels": sum(positives),
                "shards": len(shards),
                "bytes": sum(values[1] for values in shards),
                **({"frames": self.progress.frames.get(split, 0)} if self._level == "frame" else {}),
                "classes without a video": [
                    classes.vocabulary.name(index) if classes.vocabulary else f"class {index}" for index in absent
                ],
            }
        return {
            "level": self._level,
            "features": [str(feature) for feature in self.progress.formats()],
            "classes": classes.size,
            "splits": splits,
            **({"longest video in frames": self.progress.longest} if self._level == "frame" else {}),
            **({"videos cut to the limit of frames": self.progress.cut} if self._level == "frame" else {}),
            **(
                {"labels corrected": self._sum_corrections()} if any(map(any, self.progress.corrected.values())) else {}
            ),
            "rows left out": {str(number): problem for number, problem in sorted(bad.items())},
        }

    def _sum_corrections(self) -> dict[str, int]:
        added, removed = map(sum, zip(*self.progress.corrected.values(), strict=True))
        return {"added": added, "removed": removed}


def making_folder(out: str, level: str) -> str:
    """The hidden folder in which the records of a level are made. When they are complete, it is renamed to `level`."""
    return storage.join(out, f".{level}.making")


def newest_version(stamps: Iterable[Stamp]) -> int:
    """The largest version of the files. It grows if a file is rewritten, but not if a file is deleted."""
    return max((stamp.version for stamp in stamps), default=0)


def inputs_hash(*inputs: Any) -> str:
    """A hash of all inputs that determine the records."""
    return hashlib.sha256(json.dumps(inputs, default=str).encode()).hexdigest()
