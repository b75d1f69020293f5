"""Writes the folder of the records of one level: under a hidden name, which is renamed when the folder is complete.

`OUT/.video.making/` becomes `OUT/video/`. It contains `summary.json` and a folder for each split with the shards and
their manifest. If OUT is in a bucket, the folder is filled on this machine, and sent when it is complete.

`.progress.json` says how many rows are done, and which size each shard had after the last of these rows. Before
`.progress.json` is written, the shards are synced to the disk. After a kill or a power cut, the next start compares the
shards with `.progress.json`, cuts them to these sizes and continues with the next row.

The records that are appended to a shard at once are called a chunk.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import google_crc32c
import numpy as np
from absl import logging
from numpy.typing import NDArray

from yt8m import storage
from yt8m.datasets.make_records import video_lengths
from yt8m.datasets.make_records.classes import Classes
from yt8m.datasets.make_records.file_versions import FileVersions
from yt8m.datasets.make_records.saved_progress import SavedProgress as SavedProgress
from yt8m.errors import RunError, UsageError
from yt8m.records import checksums, manifest, vocabulary
from yt8m.records.data_format import DataFormat, FeatureFormat
from yt8m.records.manifest import Shard
from yt8m.storage import sending

PROGRESS, SUMMARY = ".progress.json", "summary.json"  # files in the folder of a level; see the beginning of this file
# .progress.json is written at most every `_SAVE_INTERVAL` seconds. After a slow write, the next one waits for
# `_INTERVAL_PER_SAVE` times the duration of that write.
_SAVE_INTERVAL, _INTERVAL_PER_SAVE = 2.0, 10
_WRITER_THREADS, _MOST_PENDING = 2, 6  # number of threads that write, and of chunks that may wait for them


class WrittenShard(NamedTuple):
    """What was written to a shard so far.

    Attributes:
      size: bytes of all records.
      crc: CRC-32C of all records.
      last_offset: offset of the last chunk in bytes.
      last_crc: CRC-32C of the last chunk.
    """

    records: int = 0
    size: int = 0
    crc: int = 0
    last_offset: int = 0
    last_crc: int = 0

    def extend(self, records: int, size: int, crc: int) -> WrittenShard:
        """The values after one more chunk of `records` records, with `size` bytes and this CRC-32C, is appended."""
        joined_crc = checksums.join_crcs(self.crc, crc, size)
        return WrittenShard(self.records + records, self.size + size, joined_crc, self.size, crc)

    def damage(self, path: str, is_growing: bool) -> str:
        """Describes how the size or the last chunk of the file differs from what was written; empty if neither does."""
        size = storage.size(path) if storage.exists(path) else 0
        if size < self.size or (size > self.size and not is_growing):
            return f"{path} has {size} bytes, but {self.size} were written"
        if not self.size:  # nothing was written, so there need not be a file
            return ""
        with storage.open_read(path) as file:
            file.seek(self.last_offset)
            last = file.read(self.size - self.last_offset)
        return "" if google_crc32c.value(last) == self.last_crc else f"the end of {path} is not what was written"


@dataclass
class RecordsProgress(SavedProgress):
    """How many of the records have been written: the content of .progress.json.

    Attributes:
      features: the name, the size and the range (None for floats) of each feature.
      shards: {path in the folder: the values of a `WrittenShard`}.
      positives: {split: number of videos of each class}.
      frames: {split: number of frames}.
      longest: the largest number of frames of a video.
      lengths: {split: {number of frames, as a text: number of videos with so many}}, where these are known.
      corrected: {split: (number of labels that decisions have added, number that they have removed)}.
      bad: {number of a row: what is wrong with it}, for rows that were found bad while the records were written.
      files: the versions of the videos' files, the values of `FileVersions`; None if they were not saved.
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
    lengths: dict[str, dict[str, int]] = field(default_factory=dict)
    corrected: dict[str, list[int]] = field(default_factory=dict)
    bad: dict[str, str] = field(default_factory=dict)
    complete: bool = False
    files: Sequence[Any] | None = None

    def matches(self, inputs: str, files: FileVersions) -> bool:
        """Whether the progress was saved for these inputs, and no file of a video was changed after that.

        `files` are the versions of the videos' files now.
        """
        return self.inputs == inputs and (self.files is None or not files.has_changed_since(FileVersions(*self.files)))

    def damage(self, folder: str) -> str:
        """Describes how a shard in `folder` differs from what was written, or which manifest is missing; or empty."""
        written = {shard: WrittenShard(*values) for shard, values in self.shards.items()}
        paths = {shard: storage.join(folder, shard) for shard in written}
        if storage.is_remote(folder):  # a listing of the bucket has the sizes and checksums, so nothing is read
            contents = sending.contents(folder)
            damages = (
                paths[shard] for shard in written if contents.get(shard) != (written[shard].size, written[shard].crc)
            )
            damaged = next((f"{path} is not what was written" for path in damages), "")
            return damaged or self._missing_manifest(folder)
        problems = (written[shard].damage(paths[shard], is_growing=not self.complete) for shard in written)
        return next(filter(None, problems), "") or self._missing_manifest(folder)

    def _missing_manifest(self, folder: str) -> str:
        """Says which manifest of complete records is missing; empty if none is. Without it, bytes have no ranges."""
        splits = sorted({shard.split("/")[0] for shard in self.shards if self.complete})
        paths = (storage.join(folder, split, manifest.NAME) for split in splits)
        return next((f"{path} is missing" for path in paths if not storage.exists(path)), "")

    def formats(self) -> tuple[FeatureFormat, ...]:
        """The features as `FeatureFormat`s; `features` has them in the form that JSON can hold."""
        return tuple(FeatureFormat(name, size, bounds and tuple(bounds)) for name, size, bounds in self.features)


class Output:
    """Writes the records of one level.

    Args:
      videos: {split: number of videos}.
      making: the folder in which the records are made; by default the hidden folder `making_folder(out, level)`.
    """

    def __init__(self, out: str, level: str, videos: Mapping[str, int], shards: int, making: str = "") -> None:
        self._out, self._level, self._videos, self._shards = out, level, dict(videos), shards
        self.final, self._hidden = storage.join(out, level), making_folder(out, level)
        self.making = making or self._hidden
        self._old = storage.join(out, f".{level}.old")
        self.progress = RecordsProgress("", [])
        self._saved_at, self._save_interval = time.monotonic(), _SAVE_INTERVAL
        self._unsynced: set[str] = set()  # shards that were written after the progress was last saved
        self._writers = ThreadPoolExecutor(_WRITER_THREADS)
        self._pending = deque[tuple[str, Future[list[int]]]]()  # (shard, result) of each chunk, in order
        self._sizes: dict[str, int] = {}  # {shard: its size in bytes once all pending chunks are written}

    def resume(self, inputs: str, overwrite: bool, files: FileVersions) -> str:
        """Loads the progress of an earlier start with the same inputs.

        Removes the hidden folder if its records cannot be continued.

        Args:
          overwrite: whether complete records made from other inputs, or damaged ones, may be replaced.

        Returns:
          `made` if the records are complete, `written` if they are complete but still in the hidden folder, so that
          only `install` is left to do, `begun` if the earlier start was interrupted before that, and an empty text if
          all records must be made.
        """
        finished, damage = RecordsProgress.read(storage.join(self.final, PROGRESS)), ""
        if finished is not None and finished.complete and finished.matches(inputs, files):
            if self._is_half_renamed():
                storage.rename(self._hidden, self.final)
            damage = finished.damage(self.final)
            if not damage:
                self.progress = finished
                self._remove_old()
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
        if begun is not None and begun.matches(inputs, files):
            damage = begun.damage(self.making)
            if not damage:
                self.progress = begun
                return "written" if begun.complete else "begun"
            logging.warning("the interrupted run cannot be continued: %s. All records are made again.", damage)
        if storage.exists(self.making):
            storage.remove_tree(self.making)
        return ""

    def _is_half_renamed(self) -> bool:
        """Whether an earlier start was killed while it renamed the objects of the hidden folder in a bucket.

        The progress file is renamed first, so the hidden folder then has other objects, but not this file.
        """
        folder = self._hidden
        return (
            storage.is_remote(folder) and storage.exists(folder) and not storage.exists(storage.join(folder, PROGRESS))
        )

    def truncate_shards(self) -> None:
        """Cuts each shard to its size in the saved progress; removes shards that were begun after it was saved."""
        for split in self._videos:
            folder = storage.join(self.making, split)
            for name in storage.listdir(folder) if storage.exists(folder) else ():
                path, size = storage.join(folder, name), self._written_to(f"{split}/{name}").size
                storage.truncate(path, size) if size else storage.remove(path)

    def begin(self, inputs: str, features: Sequence[FeatureFormat], files: FileVersions | None = None) -> None:
        """Begins with the first row of the table: saves a progress without records.

        Args:
          files: the versions of the videos' files; None if they are unknown.
        """
        formats = [list(feature) for feature in features]
        self.progress = RecordsProgress(inputs, formats, begun=[0] * len(self._videos), files=files)
        self._save_progress()

    def assign_to_shards(
        self, splits: NDArray[np.int16], indices: NDArray[np.int64]
    ) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Yields (path of a shard in the folder, indices of its next videos); fills the shards in order and equally."""
        for split, (name, videos) in enumerate(self._videos.items()):
            selected, first = indices[splits[indices] == split], self.progress.begun[split]
            numbers = (np.arange(first, first + len(selected)) * min(self._shards, videos)) // max(videos, 1)
            self.progress.begun[split] += len(selected)
            ends = np.flatnonzero(np.diff(numbers)) + 1
            for chunk in np.split(np.arange(len(selected)), ends) if len(selected) else ():
                yield f"{name}/{name}{numbers[chunk[0]]:04d}.tfrecord", selected[chunk]

    def append(self, shard: str, contents: Iterable[NDArray[np.uint8]], size: int) -> None:
        """Appends framed records, as one chunk, to a shard, in a thread. The thread also iterates over `contents`.

        First waits if too many chunks are pending.

        Args:
          size: bytes of all arrays.
        """
        self.wait(most=_MOST_PENDING)
        offset = self._sizes.get(shard, self._written_to(shard).size)
        self._sizes[shard] = offset + size
        self._pending.append((shard, self._writers.submit(self.write_records, shard, offset, contents)))

    def write_records(self, shard: str, offset: int, contents: Iterable[NDArray[np.uint8]]) -> list[int]:
        """Writes framed records into a shard from the byte `offset` on; see `append` for the other arguments.

        Returns:
          [number of records, number of bytes, CRC-32C of the records].
        """
        count = size = crc = 0

        def count_records() -> Iterator[NDArray[np.uint8]]:
            nonlocal count, size, crc
            for records in contents:
                yield records
                crc = google_crc32c.extend(crc, records)
                count, size = count + len(records), size + records.nbytes

        storage.write_at(storage.join(self.making, shard), offset, count_records())
        return [count, size, crc]

    def wait(self, most: int = 0) -> None:
        """Waits until at most `most` chunks are pending, and adds the chunks that were written to the progress."""
        while len(self._pending) > most:
            shard, chunk = self._pending.popleft()
            self.progress.shards[shard] = self._written_to(shard).extend(*chunk.result())
            self._unsynced.add(shard)

    def _written_to(self, shard: str) -> WrittenShard:
        return WrittenShard(*self.progress.shards.get(shard, ()))

    def close(self) -> None:
        """Stops the threads that write. Chunks that they have not begun are dropped; a later start writes them."""
        self._writers.shutdown(cancel_futures=True)

    def count_videos(self, split: int, classes: NDArray[np.int64], frames: int) -> None:
        """Adds written videos of a split to the numbers of videos of each class and of frames.

        Args:
          classes: int64, the class of each label of the videos.
        """
        name = list(self._videos)[split]
        before = np.array(self.progress.positives.get(name, []), np.int64)
        counts = np.bincount(classes, minlength=len(before))
        counts[: len(before)] += before
        self.progress.positives[name] = counts.tolist()
        self.progress.frames[name] = self.progress.frames.get(name, 0) + frames

    def count_lengths(self, split: int, frames: NDArray[np.int64]) -> None:
        """Counts the numbers of frames of written videos of the split with the index `split`; 0 is an unknown one."""
        video_lengths.count(self.progress.lengths.setdefault(list(self._videos)[split], {}), frames)

    def count_changed_labels(self, split: int, added: int, removed: int) -> None:
        """Counts the labels that decisions added and removed in the split with the index `split`."""
        name = list(self._videos)[split]
        before = self.progress.corrected.get(name, [0, 0])
        self.progress.corrected[name] = [before[0] + added, before[1] + removed]

    def mark_done(self, rows: int) -> None:
        """Notes that the first `rows` rows of the table are done; saves this at most every `_SAVE_INTERVAL` s."""
        self.progress.rows = rows
        if time.monotonic() > self._saved_at + self._save_interval:
            self._save_progress()

    def _save_progress(self) -> None:
        """Waits for the pending chunks, syncs the shards to the disk, and writes .progress.json."""
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
        """Completes the records: writes the manifests, the summary and the vocabulary, and renames the folder.

        Replaces the records of this level that an earlier command made. Writes a larger number of classes into the
        manifests of other levels if there are new classes.

        Args:
          bad: {number of a row: what is wrong with it}.
          corrections: called for each split with the numbers of labels that the decisions of --corrections added and
            removed; returns the entry of the manifest that describes these decisions, empty if there are none.
        """
        self.wait()
        if not self.progress.shards:
            raise RunError("no video is left: every row is bad. Correct the rows, or the files that they name.")
        for split in self._videos:
            entry = corrections(*self.progress.corrected.get(split, [0, 0]))
            self._write_manifest(split, classes.size, extractors, entry)
        summary = json.dumps(self.summary(classes, bad), indent=1, ensure_ascii=False)
        storage.write(storage.join(self.making, SUMMARY), summary)
        self.progress.complete = True
        self._save_progress()
        self.install(classes)

    def install(self, classes: Classes) -> None:
        """Moves complete records from the hidden folder to their final one, and completes the files of the data set.

        An earlier start may have done a part of it before it was killed.
        """
        if self.making != self._hidden:
            storage.refuse_lost_lock(self._out)
            sending.send_changed(self.making, self._hidden)
        storage.refuse_lost_lock(self._out)
        self._write_vocabulary(classes)
        # The other levels are updated before the folder is renamed: after a kill in between, the next start repeats it.
        self._update_other_levels(classes.size)
        if storage.exists(self.final):
            self._remove_old()
            storage.rename(self.final, self._old)
        storage.rename(self._hidden, self.final)
        self._remove_old()

    def _remove_old(self) -> None:
        """Removes the replaced records; if an earlier start was killed meanwhile, a part of them may be left."""
        if storage.exists(self._old):
            storage.remove_tree(self._old)

    def restore_vocabulary(self, classes: Classes) -> None:
        """Writes the vocabulary of complete records if it is gone."""
        if not storage.exists(storage.join(self._out, vocabulary.NAME)):
            self._write_vocabulary(classes)

    def _write_vocabulary(self, classes: Classes) -> None:
        if classes.vocabulary is not None:
            counts = np.array(self._positives("train", len(classes.vocabulary)), np.int64)
            path = storage.join(self._out, vocabulary.NAME)
            vocabulary.write(path, dataclasses.replace(classes.vocabulary, counts=counts))

    def _write_manifest(
        self, split: str, num_classes: int, extractors: Sequence[Mapping[str, Any]], corrections: Mapping[str, Any]
    ) -> None:
        """Writes the manifest of a split; writes nothing if the split has no shard."""
        shards = {
            storage.join(self.making, name): Shard(values[0], values[1], f"{values[2]:08x}")
            for name, values in self.progress.shards.items()
            if name.startswith(f"{split}/")
        }
        if shards:
            longest = self.progress.longest if self._level == "frame" else None
            positives = tuple(self._positives(split, num_classes)) if split == "train" else None
            features, lengths = self.progress.formats(), video_lengths.of_training(self.progress.lengths)
            data = DataFormat(self._level, features, False, num_classes, longest, positives, lengths)
            path = storage.join(self.making, split, manifest.NAME)
            manifest.write(path, shards, data, extractors, split, corrections)

    def _positives(self, split: str, num_classes: int) -> list[int]:
        """The number of videos of each class in a split; 0 for a class without a video."""
        counts = self.progress.positives.get(split, [])
        return counts + [0] * (num_classes - len(counts))

    def _update_other_levels(self, num_classes: int) -> None:
        """Increases the number of classes in the manifests of other levels, since all levels share the vocabulary."""
        for path in storage.glob_in(self._out, "*", "*", manifest.NAME):
            other_manifest = manifest.read(path)
            if other_manifest.data is not None and (other_manifest.data.num_classes or 0) < num_classes:
                positives = other_manifest.data.positives
                if positives is not None:
                    positives = positives + (0,) * (num_classes - len(positives))
                data = other_manifest.data._replace(num_classes=num_classes, positives=positives)
                manifest.write(path, other_manifest.shards, data, *other_manifest[3:6])

    def summary(self, classes: Classes, bad: Mapping[int, str]) -> dict[str, Any]:
        """The content of summary.json; `bad` is {number of a row: what is wrong with it}."""
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
    """The hidden folder in which the records of a level are made; it is renamed to `level` when they are complete."""
    return storage.join(out, f".{level}.making")
