"""Divides records into folds: sets of shards that a model trains on or is tested on.

A fold is drawn by a hash of the video's id, or of the group that the id belongs to. So it depends on nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import IO, NamedTuple

import google_crc32c
import numpy as np

from yt8m import storage, terminal
from yt8m.datasets.make_records.tables import open_columns
from yt8m.errors import UsageError
from yt8m.eval_util.arrays import Ints32, Ints64
from yt8m.records import manifest, shards, vocabulary
from yt8m.records.batches import Records
from yt8m.records.manifest import Shard
from yt8m.records.record_parser import NumpyBatch

_SHARDS = 4  # of a fold, which are read in turns, so that neighbours in the data are not neighbours in a batch


class AuditedVideos(NamedTuple):
    """The videos of an audit, in the order of the data. N is their number.

    Attributes:
      ids: the text of each id.
      splits: int32 [N], place of each video's split in `split_names`.
      split_names: the splits.
      folds: int32 [N].
    """

    ids: Sequence[str]
    splits: Ints32
    split_names: Sequence[str]
    folds: Ints32

    def of_fold(self, fold: int) -> Ints64:
        """The places of the videos of a fold, in the order in which `FoldSets` stores them."""
        places = np.flatnonzero(self.folds == fold)
        return np.concatenate([places[start::_SHARDS] for start in range(_SHARDS)])


def split_of(path: str) -> str:
    """The split of a shard: the one that its manifest names, else the name of its folder."""
    folder = os.path.dirname(storage.absolute(path))
    beside = storage.join(folder, manifest.NAME)
    split = manifest.read(beside).split if storage.exists(beside) else ""
    return split or os.path.basename(folder)


def read_groups(table: str, column: str) -> Mapping[str, str]:
    """{id as text: group} of a table; empty without a table.

    Raises:
      UsageError: there is no such table or column.
    """
    if not table:
        return {}
    groups: dict[str, str] = {}
    for rows in open_columns("--table", table, ["id", column]).batches(8192):
        ids = (shards.id_text(str(cell).encode("utf-8", "surrogateescape")) for cell in rows.cells["id"])
        groups |= zip(ids, map(str, rows.cells[column]), strict=True)
    return groups


def fold_of(text: str, folds: int) -> int:
    """The fold of an id or a group."""
    digest = hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % folds


class FoldSets:
    """The folds of an audit as shards in a folder of its own.

    Args:
      folder: the folder.
      folds: the number of folds, K.
    """

    def __init__(self, folder: str, folds: int) -> None:
        self._folder, self._folds = folder, folds

    @property
    def is_complete(self) -> bool:
        """Whether `write` has written all folds."""
        return storage.exists(storage.join(self._folder, manifest.NAME))

    def pattern(self, fold: int) -> str:
        """The pattern of the shards of a fold."""
        return storage.join(self._folder, f"fold{fold}-*.tfrecord")

    def others(self, fold: int) -> str:
        """The patterns of the shards of all other folds."""
        others = (self.pattern(other) for other in range(self._folds) if other != fold)
        return ",".join(pattern for pattern in others if storage.glob(pattern))

    def write(
        self, records: Records, groups: Mapping[str, str], seen: Callable[[NumpyBatch], None] = lambda _: None
    ) -> AuditedVideos:
        """Writes all videos into the shards of their folds.

        Args:
          records: the videos.
          groups: the groups of the ids; without them an id is its own group.
          seen: gets each batch of videos.

        Raises:
          UsageError: a video is in no group, or a fold has no video.
          RunError: a record is damaged.
        """
        names = list(dict.fromkeys(map(split_of, records.files)))
        of_file = {path: names.index(split_of(path)) for path in records.files}
        ids, splits, folds = list[str](), list[int](), list[int]()
        with contextlib.ExitStack() as stack:
            writers = _Writers(self._folder, stack)
            for raws in terminal.with_bar(records.serialized(), "dividing"):
                batch = records.parsed(raws)
                seen(batch)
                for video, (payload, path, _) in zip(batch.ids, raws, strict=True):
                    fold = fold_of(_group(video, groups), self._folds)
                    writers.add(fold, payload)
                    ids.append(video)
                    splits.append(of_file[path])
                    folds.append(fold)
        videos = AuditedVideos(ids, np.array(splits, np.int32), names, np.array(folds, np.int32))
        self._refuse_empty(videos)
        self._finish(records, writers.written())
        return videos

    def _refuse_empty(self, videos: AuditedVideos) -> None:
        empty = np.flatnonzero(np.bincount(videos.folds, minlength=self._folds) == 0)
        if len(empty):
            raise UsageError(
                f"--folds={self._folds}: fold {empty[0]} has no video, because there are only {len(videos.ids)} videos "
                "or few groups; give fewer folds."
            )

    def _finish(self, records: Records, written: Mapping[str, Shard]) -> None:
        """Writes what belongs to the shards; the manifest, which says that they are complete, last."""
        names = vocabulary.find(records.files)
        if names:
            storage.write(storage.join(self._folder, vocabulary.NAME), storage.read_bytes(names))
        source = manifest.find(records.files)
        data = records.format._replace(positives=None)
        manifest.write(storage.join(self._folder, manifest.NAME), written, data, source.extractors)


def _group(video: str, groups: Mapping[str, str]) -> str:
    if not groups:
        return video
    if not groups.get(video):
        raise UsageError(f"--table: video {video!r} of the data has no row with a group; add it to the table.")
    return groups[video]


class _Writers:
    """The shards that are being written; each appears under its name when the stack closes it."""

    def __init__(self, folder: str, stack: contextlib.ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self._shards: dict[str, _GrowingShard] = {}
        self._counts: dict[int, int] = {}

    def add(self, fold: int, payload: bytes) -> None:
        """Appends a record to a fold, whose shards take turns."""
        count = self._counts.get(fold, 0)
        self._counts[fold] = count + 1
        path = storage.join(self._folder, f"fold{fold}-{count % _SHARDS}.tfrecord")
        if path not in self._shards:
            self._shards[path] = _GrowingShard(self._stack.enter_context(storage.write_atomic(path)))
        self._shards[path].add(payload)

    def written(self) -> dict[str, Shard]:
        """{path: content} of the shards."""
        return {path: growing.content for path, growing in self._shards.items()}


class _GrowingShard:
    """A shard that is being written, and its content so far."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._records, self._bytes, self._crc = file, 0, 0, 0

    def add(self, payload: bytes) -> None:
        framed = shards.framed(payload)
        self._file.write(framed)
        self._records, self._bytes = self._records + 1, self._bytes + len(framed)
        self._crc = google_crc32c.extend(self._crc, framed)

    @property
    def content(self) -> Shard:
        return Shard(self._records, self._bytes, f"{self._crc:08x}")


def write_videos(path: str, videos: AuditedVideos) -> None:
    """Writes the videos of an audit into an NPZ file, whole or not at all."""
    ids = np.frombuffer("\n".join(videos.ids).encode("utf-8", "surrogateescape"), np.uint8)
    names = np.array(videos.split_names)
    with storage.write_atomic(path) as file:
        np.savez(file, ids=ids, splits=videos.splits, split_names=names, folds=videos.folds)


def read_videos(path: str) -> AuditedVideos:
    """The videos that `write_videos` wrote."""
    with storage.open_read(path) as file, np.load(file) as arrays:
        ids = arrays["ids"].tobytes().decode("utf-8", "surrogateescape").split("\n")
        return AuditedVideos(ids, arrays["splits"], arrays["split_names"].tolist(), arrays["folds"])
