"""Writes the folder of the records of one level: under a hidden name, which is renamed when the folder is complete.

`OUT/.video.making/` becomes `OUT/video/`. It contains `summary.json`, `groups.npz` if --group_by is given, and a folder
for each split with the shards and their manifest. If OUT is in a bucket, the folder is filled on this machine, and sent
when it is complete.

When all records are written, the shards are synced to the disk, and then `.progress.json` says what was made from which
inputs. After a kill or a power cut, the next start makes a folder without it anew; one with it is only renamed.

The records that are appended to a shard at once are called a chunk.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import google_crc32c
import numpy as np
from absl import logging
from numpy.typing import NDArray

from yt8m import storage
from yt8m.datasets.make_records.classes import Classes
from yt8m.datasets.make_records.saved_progress import FileVersions, RecordsProgress
from yt8m.datasets.make_records.span_cells import Grid
from yt8m.errors import RunError, UsageError
from yt8m.records import manifest, vocabulary
from yt8m.records.data_format import DataFormat
from yt8m.records.groups import NAME as GROUPS
from yt8m.records.groups import Groups
from yt8m.records.manifest import Shard
from yt8m.storage import sending

WITHOUT_VIDEO = "classes without a video"  # an entry of a split in summary.json
PROGRESS, SUMMARY = ".progress.json", "summary.json"  # files in the folder of a level; see the beginning of this file
_WRITER_THREADS, _MOST_PENDING = 2, 6  # number of threads that write, and of chunks that may wait for them


class Output:
    """Writes the records of one level.

    Args:
      videos: {split: number of videos}.
      making: the folder in which the records are made; by default the hidden folder `making_folder(out, level)`.

    Attributes:
      grid: the grid on which spans are stored; None for records without spans.
    """

    grid: Grid | None = None

    def __init__(self, out: str, level: str, videos: Mapping[str, int], shards: int, making: str = "") -> None:
        self._out, self._level, self._videos, self._shards = out, level, dict(videos), shards
        self.final, self._hidden = storage.join(out, level), making_folder(out, level)
        self.making = making or self._hidden
        self._old = storage.join(out, f".{level}.old")
        self.progress = RecordsProgress("", [])
        self._assigned = [0] * len(self._videos)  # number of videos of each split that were assigned to shards
        self._writers = ThreadPoolExecutor(_WRITER_THREADS)
        self._pending = deque[tuple[str, Future[Shard]]]()  # (shard, result) of each chunk, in order
        self._sizes: dict[str, int] = {}  # {shard: its size in bytes once all pending chunks are written}

    def resume(
        self,
        inputs: str,
        overwrite: bool,
        files: FileVersions,
        keeps_begun: bool = False,
        dense: Callable[[], str] | None = None,
    ) -> str:
        """Loads what an earlier start with the same inputs has made; removes the hidden folder of any other start.

        Args:
          overwrite: whether complete records made from other inputs, or damaged ones, may be replaced.
          keeps_begun: whether the caller goes on with the hidden folder that its `begin` has marked.
          dense: see `FileVersions.has_changed_since`.

        Returns:
          `made` if the records are complete, `written` if they are complete but still in the hidden folder, so that
          only `install` is left to do, `begun` if the hidden folder of an interrupted start is kept, and an empty text
          if all records must be made.
        """
        path, damage = storage.join(self.final, PROGRESS), ""
        finished = RecordsProgress.read(path)
        if finished is not None and finished.complete and finished.matches(inputs, files, dense):
            if self._is_half_renamed(finished):
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
        if finished is None and storage.exists(path) and not overwrite:
            raise UsageError(
                f"{path} is damaged, so nobody knows of what {self.final} was made; add --overwrite to make it again, "
                "or name another folder as --out."
            )
        if storage.exists(self.final) and not overwrite:
            raise UsageError(
                f"{self.final} already exists, and was made from another table, from other files or with other "
                "flags; add --overwrite to replace it, or name another folder as --out."
            )
        begun = RecordsProgress.read(storage.join(self.making, PROGRESS))
        if begun is not None and begun.matches(inputs, files, dense) and (begun.complete or keeps_begun):
            damage = begun.damage(self.making)
            if not damage:
                self.progress = begun
                return "written" if begun.complete else "begun"
            logging.warning("%s. All records are made again.", damage)
        if storage.exists(self.making):
            storage.remove_tree(self.making)
        return ""

    def _is_half_renamed(self, finished: RecordsProgress) -> bool:
        """Whether an earlier start was killed while it renamed the objects of the hidden folder in a bucket.

        The progress file is renamed first: it is copied, and then the one in the hidden folder is removed.

        Args:
          finished: the content of the progress file in the final folder.
        """
        folder = self._hidden
        if not storage.is_remote(folder) or not storage.exists(folder):
            return False
        return RecordsProgress.read(storage.join(folder, PROGRESS)) in (None, finished)

    def begin(self, inputs: str) -> None:
        """Marks the hidden folder as begun with these inputs, so that `resume` may keep the shards in it."""
        self.progress = RecordsProgress(inputs, [])
        self._save_progress()

    def assign_to_shards(
        self, splits: NDArray[np.int16], indices: NDArray[np.int64]
    ) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Yields (path of a shard in the folder, indices of its next videos); fills the shards in order and equally."""
        for split, (name, videos) in enumerate(self._videos.items()):
            selected, first = indices[splits[indices] == split], self._assigned[split]
            numbers = (np.arange(first, first + len(selected)) * min(self._shards, videos)) // max(videos, 1)
            self._assigned[split] += len(selected)
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
        offset = self._sizes.get(shard, 0)
        self._sizes[shard] = offset + size
        self._pending.append((shard, self._writers.submit(self.write_records, shard, offset, contents)))

    def write_records(self, shard: str, offset: int, contents: Iterable[NDArray[np.uint8]]) -> Shard:
        """Writes framed records into a shard from the byte `offset` on, and returns what these records are."""
        count = size = crc = 0

        def count_records() -> Iterator[NDArray[np.uint8]]:
            nonlocal count, size, crc
            for records in contents:
                yield records
                crc = google_crc32c.extend(crc, records)
                count, size = count + len(records), size + records.nbytes

        storage.write_at(storage.join(self.making, shard), offset, count_records())
        return Shard(count, size, f"{crc:08x}")

    def wait(self, most: int = 0) -> None:
        """Waits until at most `most` chunks are pending, and adds the chunks that were written to the progress."""
        while len(self._pending) > most:
            shard, chunk = self._pending.popleft()
            written = self.progress.shards.get(shard)
            self.progress.shards[shard] = written.extend(chunk.result()) if written else chunk.result()

    def close(self) -> None:
        """Stops the threads that write. Chunks that they have not begun are dropped."""
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
        _count_lengths(self.progress.lengths.setdefault(list(self._videos)[split], {}), frames)

    def count_spans(self, split: int, said: Mapping[str, int]) -> None:
        """Adds what is said of the spans of a video to the numbers of its split."""
        counts = self.progress.spans.setdefault(list(self._videos)[split], {})
        for text, count in said.items():
            counts[text] = counts.get(text, 0) + count

    def count_changed_labels(self, split: int, added: int, removed: int) -> None:
        """Counts the labels that decisions added and removed in the split with the index `split`."""
        name = list(self._videos)[split]
        before = self.progress.corrected.get(name, [0, 0])
        self.progress.corrected[name] = [before[0] + added, before[1] + removed]

    def _save_progress(self) -> None:
        """Syncs the shards that this process wrote to the disk, and writes .progress.json."""
        storage.sync(storage.join(self.making, shard) for shard in sorted(self._sizes))
        self.progress.write(storage.join(self.making, PROGRESS))

    def finish(
        self,
        classes: Classes,
        bad: Mapping[int, str],
        extractors: Sequence[Mapping[str, Any]] = (),
        corrections: Callable[[int, int], Mapping[str, Any]] = lambda *_: {},
        groups: Groups | None = None,
    ) -> None:
        """Completes the records: writes the manifests, the summary and the vocabulary, and renames the folder.

        Replaces the records of this level that an earlier command made. Writes a larger number of classes into the
        manifests of other levels if there are new classes.

        Args:
          bad: {number of a row: what is wrong with it}.
          corrections: called for each split with the numbers of labels that the decisions of --corrections added and
            removed; returns the entry of the manifest that describes these decisions, empty if there are none.
          groups: which videos belong together; None if nothing is known of that.
        """
        self.wait()
        if not self.progress.shards:
            raise RunError("no video is left: every row is bad. Correct the rows, or the files that they name.")
        for split in self._videos:
            entry = corrections(*self.progress.corrected.get(split, [0, 0]))
            self._write_manifest(split, classes.size, extractors, entry)
        summary = json.dumps(self.summary(classes, bad), indent=1, ensure_ascii=False)
        storage.write(storage.join(self.making, SUMMARY), summary)
        if groups is not None:
            groups.write(storage.join(self.making, GROUPS))
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
            storage.join(self.making, name): shard
            for name, shard in self.progress.shards.items()
            if name.startswith(f"{split}/")
        }
        if shards:
            longest = self.progress.longest if self._level == "frame" else None
            positives = tuple(self._positives(split, num_classes)) if split == "train" else None
            features, lengths = self.progress.formats(), _lengths_of_training(self.progress.lengths)
            data = DataFormat(self._level, features, False, num_classes, longest, positives, lengths)
            if self.grid:
                data = data._replace(
                    segment_labels=True,
                    segment_size=self.grid.frames,
                    frames_per_second=self.grid.per_second,
                    annotated=self.grid.annotated,
                )
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
            shards = [shard for name, shard in self.progress.shards.items() if name.startswith(f"{split}/")]
            positives = self._positives(split, classes.size)
            splits[split] = {
                "videos": sum(shard.records for shard in shards),
                "labels": sum(positives),
                "shards": len(shards),
                "bytes": sum(shard.bytes for shard in shards),
                **({"frames": self.progress.frames.get(split, 0)} if self._level == "frame" else {}),
                **({"spans": self.progress.spans[split]} if split in self.progress.spans else {}),
                WITHOUT_VIDEO: classes.without_video(positives),
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


def _count_lengths(lengths: dict[str, int], frames: NDArray[np.int64]) -> None:
    """Counts further videos; `frames` has the number of frames of each, and 0 if it is unknown."""
    for length, videos in zip(*np.unique(frames[frames > 0], return_counts=True), strict=True):
        lengths[str(length)] = lengths.get(str(length), 0) + int(videos)


def _lengths_of_training(lengths_by_split: Mapping[str, Mapping[str, int]]) -> tuple[int, int] | None:
    """(median, largest) number of frames of a training video, the lower of two medians; None if none is known.

    If there is no split `train`, the videos of all splits count.
    """
    totals = Counter[str]()
    for lengths in [lengths_by_split["train"]] if lengths_by_split.get("train") else lengths_by_split.values():
        totals.update(lengths)
    if not totals:
        return None
    frames = np.array(sorted(map(int, totals)), np.int64)
    videos = np.cumsum([totals[str(length)] for length in frames.tolist()])
    return int(frames[np.searchsorted(videos, (videos[-1] + 1) // 2)]), int(frames[-1])
