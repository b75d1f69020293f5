"""What the data of a program are: opened once where the program begins, described once, and handed on.

`open_data` is the one place that lists shards, reads their manifests, finds their vocabulary and finds out the format
of their records. So a refusal or a warning about data stands here, and every program says the same of the same files.
Configs have patterns, which can be saved and sent to other processes; an `OpenedData` is neither saved nor sent.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import itertools
import os
import struct
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from absl import logging
from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import RunError, UsageError, quantity
from yt8m.records import data_folders, manifest, shards, vocabulary
from yt8m.records.data_format import KNOWN_SIZES, PUBLISHED, DataFormat, FeatureFormat, usual_range
from yt8m.records.manifest import Manifest
from yt8m.records.shards import Record
from yt8m.records.vocabulary import Vocabulary

_MAX_SHARDS = 3  # the first records of at most this number of shards are read to find the format
_MAX_RECORDS = 16  # so many records of a shard, in its first bytes; a video without frames shows no size
_HEAD = 1 << 18  # bytes read from the start of a shard; most first records are shorter
_LARGEST = 1 << 28  # bytes; a longer first record is not fetched
_MAX_LEVELS_ABOVE = 2  # how far above the shards a file is found: data/vocabulary.csv for data/video/train/*.tfrecord
# The end of messages about a model and data with different classes.
REMEDY = "A model keeps the classes that it was trained with: use data with its vocabulary, or train a new model."


class DiscoveredFormat(NamedTuple):
    """The format of the records in shards, and the file that shows it.

    Attributes:
      format: the format. If it is that of one record, `num_classes`, `max_frames` and `positives` are None.
      is_declared: whether a manifest declares the format. If not, it is that of one record, and other records may have
        further features.
      extractors: the entry `extractors` of the manifest, which `yt8m.records.manifest` describes: the networks that
        computed the features; empty if there is no such entry.
    """

    format: DataFormat
    source: str
    is_declared: bool
    extractors: tuple[Mapping[str, Any], ...] = ()

    def __str__(self) -> str:
        return self.source if self.is_declared else f"the first record of {self.source}"


@dataclass(frozen=True, eq=False)
class OpenedData:
    """Some shards, and what is known about them. Each file about them is read at its first use, and only once.

    Attributes:
      patterns: the patterns that the user named; None for no files, of which only a vocabulary is known.
      as_named: the paths of the shards in the order of the patterns, each once.
      vocabulary_file, manifest_file: the values of --vocabulary and --manifest; empty if the flag is not given.
      kind: the kind of file, for messages.
    """

    patterns: storage.Patterns | None
    as_named: tuple[str, ...]
    vocabulary_file: str = ""
    manifest_file: str = ""
    kind: str = "file"

    @cached_property
    def files(self) -> list[str]:
        """The sorted paths of the shards."""
        return sorted(self.as_named)

    @property
    def pattern(self) -> str:
        """The patterns as one text."""
        patterns = self.patterns or ""
        return (
            os.fspath(patterns)
            if isinstance(patterns, str | os.PathLike)
            else ",".join(os.fspath(each) for each in patterns)
        )

    def again(self) -> OpenedData:
        """Opens the same patterns again, for whoever must see files that appeared or changed since."""
        return open_data(self.patterns, vocabulary=self.vocabulary_file, manifest=self.manifest_file, kind=self.kind)

    def of_files(self, files: Sequence[str]) -> OpenedData:
        """The same data, but some of the files alone; nothing is listed again."""
        return OpenedData(files, tuple(files), self.vocabulary_file, self.manifest_file, self.kind)

    def with_absolute_paths(self) -> OpenedData:
        """The same data, which are found after the current folder has changed, too: for what reads them later."""
        return dataclasses.replace(self, as_named=tuple(map(storage.absolute, self.as_named)))

    def with_names(self, names: Vocabulary) -> OpenedData:
        """The same data with the vocabulary `names`, which was read from its file before."""
        renamed = dataclasses.replace(self, vocabulary_file=names.path)
        renamed.__dict__.update(self.__dict__ | {"vocabulary_file": names.path, "vocabulary": names})
        return renamed

    @cached_property
    def manifest(self) -> Manifest:
        """The manifest that --manifest names, or those in the folders of the shards, joined; it may name no shard.

        Raises:
          UsageError: there is no such file.
          RunError: a file is not a valid manifest or has a newer format, or two contradict each other.
        """
        if not self.manifest_file:
            return manifest.find(self.files)
        storage.refuse_missing(self.manifest_file, "manifest", "yt8m verify FILES --manifest=... writes it")
        return manifest.read(self.manifest_file)

    @cached_property
    def format(self) -> DiscoveredFormat | None:
        """The format of the records, in the manifest or else in the first record of one of the first shards.

        None if neither shows it. Raises like `manifest`, and `UsageError` if a folder has bytes and no manifest, while
        the manifest of another one says that bytes have a range of their own.
        """
        declared = self.manifest
        if declared.data is not None:
            self.refuse_unknown_bytes(declared.data, f"{declared.describing[0]} has")
            return DiscoveredFormat(declared.data, declared.sources[0], True, declared.extractors)
        shown_by = _find_format(self.files[:_MAX_SHARDS])
        return DiscoveredFormat(shown_by[1], shown_by[0], False) if shown_by else None

    def refuse_unknown_bytes(self, takes: DataFormat, who: str = "the model learned from") -> None:
        """Refuses bytes whose values no manifest says, if the model learned from other values than bytes usually have.

        It did if its bytes had another range than usual, or if a feature that is none of YouTube-8M's had floats.

        Args:
          takes: the format of the records that the model takes, or that the manifest of another folder declares.
          who: who has such bytes, with the verb, for the message.

        Raises:
          UsageError: the manifest of a folder is missing, or does not describe the records.
        """
        learned = {
            feature.name: feature.range
            for feature in takes.features
            if feature.range != usual_range(takes.level, feature.name)
            and (feature.range is not None or feature.name not in KNOWN_SIZES)
        }
        described = {os.path.dirname(path) for path in self.manifest.describing}
        if not learned or (self.manifest_file and described):
            return
        undescribed = [path for path in self.files if os.path.dirname(path) not in described]
        for _, files in itertools.groupby(undescribed, os.path.dirname):
            path, bytes_features = _find_bytes(files, learned.keys())
            for name in bytes_features:
                bounds = learned[name]
                learned_values = f"bytes for {bounds[0]:g}..{bounds[1]:g}" if bounds else "floats"
                raise UsageError(
                    f"{path}: no manifest says which values the bytes of {name} stand for, and {who} "
                    f"{learned_values}: read with another range, they would be wrong values. Put back "
                    f"{manifest.NAME}, which make-records or extract wrote beside the shards."
                )

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The names of the classes: those of --vocabulary, or of the vocabulary.csv nearest to the shards; or empty.

        The nearest file is in the folder of a shard, or in one of the two folders above it. The file that the flag
        names may rename classes of that one, but must not give a class another number.

        Raises:
          UsageError: the named file does not exist or numbers the classes differently, or the shards are in several
            folders whose vocabularies differ.
          RunError: a file is not a vocabulary.
        """
        if self.vocabulary_file:
            hint = "expected a CSV file with the columns index,name"
            storage.refuse_missing(self.vocabulary_file, "vocabulary", hint)
        folders = sorted({os.path.dirname(path) for path in self.files})
        beside = [vocabulary.read(path) for path in dict.fromkeys(filter(None, map(_find_nearest, folders)))]
        if self.vocabulary_file:
            renamed = vocabulary.read(self.vocabulary_file)
            for names in beside:
                _refuse_renumbering(renamed, names)
            return renamed
        for other in beside[1:]:
            beside[0].refuse_other(other, beside[0].path, other.path, "Name the shards of one data set only.")
        return beside[0] if beside else vocabulary.of_names(())

    @cached_property
    def counts(self) -> Mapping[str, int | BaseException]:
        """{path: number of records by their headers, or the error of a damaged shard} of the shards on this machine."""
        local = [path for path in self.files if not storage.is_remote(path)]
        return dict(zip(local, manifest.count_all(local), strict=True))

    @property
    def size_in_words(self) -> str:
        """The numbers of videos and shards, such as `1,200 videos in 3 shards`; the videos of local shards only."""
        shards = quantity(len(self.files), "shard", ",")
        counts = [count for count in self.counts.values() if isinstance(count, int)]
        return f"{quantity(sum(counts), 'video', ',')} in {shards}" if len(counts) == len(self.files) else shards

    def count_videos(self) -> int:
        """The number of records, by their headers or, of files in a bucket, their manifest; 0 if it is not known."""
        counts = []
        for path in self.files:
            expected = self.manifest.expected(path)
            count = self.counts.get(path, expected.records if expected else 0)
            counts.append(count if isinstance(count, int) else 0)
        return sum(counts) if all(counts) else 0

    def num_classes(self, declared: int | None = None) -> int | None:
        """The number of classes: that of the vocabulary, or else the declared one, or else that of the manifest.

        Args:
          declared: the value of --num_classes; None if the flag is not given.

        Returns:
          The number; None if nothing shows it.

        Raises:
          UsageError: the flag contradicts the vocabulary or the manifest.
        """
        if names := self.vocabulary:
            names.refuse_count(declared)
            return len(names)
        data = self.manifest.data
        in_manifest = data.num_classes if data else None
        if None not in (declared, in_manifest) and declared != in_manifest:
            raise UsageError(
                f"--num_classes={declared} contradicts the data: according to {self.manifest.sources[0]} it is "
                f"{in_manifest}. Give --num_classes={in_manifest}."
            )
        return declared if declared is not None else in_manifest

    def class_counts(self, num_classes: int, names: Vocabulary | None = None) -> NDArray[np.int64] | None:
        """The number of training videos of each class, in the vocabulary or else in the manifest of the data.

        Args:
          num_classes: the number of classes, C.
          names: the vocabulary of the run; None for that of the data.

        Returns:
          int64 [C]; None if neither the vocabulary nor the manifest has the numbers of C classes.
        """
        names = self.vocabulary if names is None else names
        if names.counts.any():
            return names.class_counts(num_classes)
        positives = np.array(self.manifest.data.positives or () if self.manifest.data else (), np.int64)
        return positives if len(positives) == num_classes and positives.any() else None

    def names_for(
        self, model_names: Vocabulary, num_classes: int | None = None, where: str = "", remedy: str = ""
    ) -> Vocabulary:
        """The names of the classes of a model on these data: the model's own, or else those of the data; or empty.

        Args:
          model_names: the vocabulary of the model; empty if it has none.
          num_classes: number of classes of the model; None if it is not known.
          where: the folder of the model, for the message.
          remedy: the end of the message: what the user can do; empty for the advice about trained models.

        Raises:
          UsageError: the two number their classes differently, and the message names the first class that differs; or
            the model has another number of classes than the vocabulary of the data.
        """
        names, remedy = self.vocabulary, remedy or REMEDY
        if not names:
            return model_names
        if expected := model_names.shown(num_classes):
            expected.refuse_other(names, where, names.path, remedy)
        elif num_classes not in (None, len(names)):
            raise UsageError(f"{names.path} names {len(names)} classes, but {where} has {num_classes}. {remedy}")
        return model_names or names

    def log_names(self) -> None:
        """Logs which file the names of the classes come from, if there is one."""
        if self.vocabulary:
            logging.info("the names of the %d classes come from %s", len(self.vocabulary), self.vocabulary.path)


def open_data(
    patterns: storage.Patterns | None,
    *,
    vocabulary: str = "",
    manifest: str = "",
    kind: str = "file",
    flag: str = "",
    by_name: bool = False,
    whole_folders: bool = False,
) -> OpenedData:
    """Lists the shards that match the patterns of a user; what they are is read when it is asked for.

    Args:
      patterns: one or several glob patterns, local or gs://, with commas between them, or a list of such texts. None
        for no files, if a vocabulary alone is known.
      vocabulary: the value of --vocabulary; empty for the vocabulary.csv nearest to the shards.
      manifest: the value of --manifest; empty for the manifests in the folders of the shards.
      kind: the kind of file, for messages.
      flag: the flag that has the patterns, for messages; empty for patterns without a flag.
      by_name: whether a file with two names counts twice.
      whole_folders: whether a folder stands for the shards in all its places; else it must have them in one.

    Raises:
      UsageError: no pattern is given, one of them matches no file or nothing but a folder that does not stand for its
        shards, or one matches a pipe or a device.
    """
    if patterns is None:
        return OpenedData(None, (), vocabulary, manifest, kind)
    try:
        choose = functools.partial(_shards_among, whole_folders=whole_folders)
        files = tuple(storage.named_files(patterns, choose, kind, by_name))
    except UsageError as error:
        if not flag:
            raise
        raise UsageError(f"--{flag}={patterns}: {error}") from error
    return OpenedData(patterns, files, vocabulary, manifest, kind)


def _shards_among(paths: list[str], *, whole_folders: bool) -> list[str]:
    """Removes the manifests from the paths that match one pattern, and refuses paths that cannot be shards.

    A folder alone stands for the shards in it. Among several paths it is kept: the program that reads the files later
    reports it as a damaged one.
    """
    if len(paths) == 1 and data_folders.is_folder(paths[0]):
        if shard_paths := data_folders.shards_in(paths[0], whole=whole_folders):
            return shard_paths
        if kind := storage.folder_kind(paths[0]):
            raise UsageError(f"{paths[0]} is no file of records: {kind}.")
        raise UsageError(f"{paths[0]} is a folder, and neither it nor the folders in it hold a *.tfrecord file.")
    for path in filter(storage.is_special, paths):
        raise UsageError(f"{path} is a pipe or a device; shards are read more than once, so name regular files.")
    return [path for path in paths if os.path.basename(path) != manifest.NAME]


def _refuse_renumbering(renamed: Vocabulary, beside: Vocabulary) -> None:
    """Raises a `UsageError` if a class has another number in the data's own vocabulary than in that of --vocabulary.

    A name that one of the two has more than once is not compared.
    """
    numbers, counts = {name: index for index, name in enumerate(renamed.names)}, Counter(renamed.names)
    counts_beside = Counter(beside.names)
    for index, name in enumerate(beside.names):
        if counts[name] == counts_beside[name] == 1 and numbers[name] != index:
            raise UsageError(
                f"--vocabulary={renamed.path}: {name!r} is class {numbers[name]} there, but class {index} in "
                f"{beside.path}, which numbers the labels of these data. Leave the flag out, or make the records anew."
            )


def _find_nearest(folder: str) -> str:
    """The path of `vocabulary.csv` in a folder, or in the nearest of the two folders above it; empty if none has it."""
    for _ in range(1 + _MAX_LEVELS_ABOVE):
        path = storage.join(folder, vocabulary.NAME)
        if storage.exists(path):
            return path
        parent = os.path.dirname(folder) if storage.is_remote(folder) else os.path.normpath(os.path.join(folder, ".."))
        if parent in ("gs:", folder):
            break
        folder = parent
    return ""


def of_record(record: Record) -> DataFormat | None:
    """The format of a record, with its features in alphabetical order; None if the record does not show their sizes.

    A feature is a list of floats; at frame level, it is one list of floats or one string of bytes per frame. A record
    does not show the size of a feature that has no frame, or frames of several sizes.
    """
    has_frames = bool(record.lists)
    kinds = ("float", "bytes") if has_frames else ("float",)
    features = []
    for name, frames in sorted((record.lists or record.features()).items()):
        kinds_and_sizes = {(frame.kind, len(frame.numbers())) for frame in frames}
        if kinds_and_sizes and not {kind for kind, _ in kinds_and_sizes} & {*kinds, ""}:
            continue  # timestamps, for example
        kind, size = next(iter(kinds_and_sizes), ("", 0))
        if len(kinds_and_sizes) != 1 or size == 0:
            return None
        features.append(FeatureFormat(name, size, PUBLISHED if kind == "bytes" else None))
    level = "frame" if has_frames else "video"
    return DataFormat(level, tuple(features), "segment_labels" in record.context) if features else None


def _find_format(paths: Iterable[str]) -> tuple[str, DataFormat] | None:
    """(a shard, the format of its first records) of the first shard that shows it; None if none does."""
    for path in paths:
        for record in _first_records(path):
            if format := of_record(record):
                return path, format
    return None


def _find_bytes(paths: Iterable[str], names: Set[str]) -> tuple[str, list[str]]:
    """(a shard, those of the features that are bytes) of the first shard that shows what they are; or empty.

    A vector of bytes of a video shows no size, since a text looks alike. So `of_record` does not find it.
    """
    for path in paths:
        for record in _first_records(path):
            values = record.lists or record.features()
            kinds = {name: {value.kind for value in values[name]} - {""} for name in sorted(names & values.keys())}
            if any(kinds.values()):
                return path, [name for name, kinds_of_feature in kinds.items() if "bytes" in kinds_of_feature]
    return "", []


def _first_records(path: str) -> Iterator[Record]:
    """Yields the records at the start of a shard, up to one that is damaged; none if it has none.

    The damage is not reported here: the program that reads the whole shard later reports it.
    """
    with contextlib.suppress(RunError, ValueError):
        for payload in itertools.islice(shards.read_records(io.BytesIO(_start_of(path)), path), _MAX_RECORDS):
            yield shards.parse(payload)


def _start_of(path: str) -> bytes:
    """The first bytes of a shard: the first record is complete in them, unless it has more than `_LARGEST` bytes."""
    start = storage.read_start(path, _HEAD)
    record_size = struct.unpack_from("<Q", start)[0] + manifest.AROUND if len(start) >= 12 else 0
    return storage.read_start(path, record_size) if len(start) < record_size <= _LARGEST else start
