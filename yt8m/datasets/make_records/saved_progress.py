"""The saved progress of make-records and extract, and whether the inputs have changed since: flags, tables, files."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from absl import logging

from yt8m import storage
from yt8m.errors import RunError, first_line
from yt8m.records import manifest
from yt8m.records.data_format import FeatureFormat
from yt8m.records.manifest import Shard
from yt8m.storage import copies, sending, state_files
from yt8m.storage.base import Stamp


class SavedProgress:
    """Base class of the progress that a command saves in a JSON file, so that the next start can continue."""

    inputs: str

    @classmethod
    def read(cls, path: str) -> Self | None:
        """Reads the progress from a file; None if there is no sound file. Entries of other versions are left out.

        The log warns of a damaged file: what it described is made again.
        """
        names = {each.name for each in dataclasses.fields(cls)}  # type: ignore[arg-type]
        try:
            return cls(**{name: value for name, value in state_files.read(path).items() if name in names})
        except storage.NotFoundError:
            return None
        except (RunError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            logging.warning("%s cannot be used (%s): what it lists counts as not made", path, first_line(error))
            return None

    def write(self, path: str) -> None:
        """Saves the progress."""
        state_files.write(path, vars(self))


class FileVersions(NamedTuple):
    """What is saved of the files of all videos, to notice a change.

    Attributes:
      newest: the largest version (see `Stamp`) of the files; 0 for none.
      content: a hash of parts of the content of these and of other files; empty if an earlier version saved this.
      whole: a hash of the whole content of files of arrays, which are read whole anyway; videos are not.
      named: a hash of the whole content of the files that flags name. These two are empty where `content` says all.
      statuses: a hash of the status (see `Stamp`) of the files of videos; empty for arrays.
      dense: a hash of `storage.dense_samples` of the files of videos. It is compared if nothing but `statuses` differs.
    """

    newest: int
    existing: int
    digest: str
    content: str = ""
    whole: str = ""
    named: str = ""
    statuses: str = ""
    dense: str = ""

    @classmethod
    def of_arrays(cls, paths: Sequence[str], of_flags: Sequence[str]) -> FileVersions:
        """The versions of files of arrays, and of the files that flags name."""
        versions = cls.from_stamps(storage.stamps(paths), storage.samples([*paths, *of_flags]))
        whole, named_hash = (hash_of_files(storage.checksums(files)) for files in (paths, of_flags))
        return versions._replace(whole=whole, named=named_hash, statuses="")

    @classmethod
    def from_stamps(cls, stamps: Mapping[str, Stamp], samples: Mapping[str, int]) -> FileVersions:
        """The versions of the files with these stamps, {path: stamp}."""
        digest = hashlib.sha256()
        for path, stamp in sorted(stamps.items()):
            digest.update(f"{copies.lasting_name(path)!r} {stamp.bytes} {stamp.version}\n".encode())
        newest = max((stamp.version for stamp in stamps.values()), default=0)
        statuses = hash_of_files({path: stamp.status for path, stamp in stamps.items()})
        return cls(newest, len(stamps), digest.hexdigest(), hash_of_files(samples), statuses=statuses)

    def has_changed_since(self, earlier: FileVersions, dense: Callable[[], str] | None = None) -> bool:
        """Whether a file was added, rewritten or replaced; files may be removed after records were made of them.

        If there are fewer files than before, the digest is another one, so only newer files are noticed.

        Args:
          dense: computes `dense` of the files now; None for files of arrays.
        """
        if earlier.named not in ("", self.named):
            return True
        if self.existing < earlier.existing:
            return self.newest > earlier.newest
        contents = zip(self[3:6], earlier[3:6], strict=True)
        if self[:3] != earlier[:3] or any(before not in ("", now) for now, before in contents):
            return True
        return dense is not None and earlier.statuses not in ("", self.statuses) and dense() != earlier.dense


def hash_of_files(checksums: Mapping[str, Any]) -> str:
    """The sha256 of what is known of files, {path: value}."""
    return hashlib.sha256(copies.lasting_name(repr(sorted(checksums.items()))).encode()).hexdigest()


def hash_inputs(*inputs: Any) -> str:
    """The sha256 of all inputs that determine the records, except the files of videos, as hexadecimal text."""
    return hashlib.sha256(copies.lasting_name(json.dumps(inputs, default=str)).encode()).hexdigest()


@dataclass
class RecordsProgress(SavedProgress):
    """What was written: the content of .progress.json.

    Attributes:
      features: the name, the size and the range (None for floats) of each feature.
      shards: {path in the folder: its content}.
      positives: {split: number of videos of each class}.
      frames: {split: number of frames}.
      longest: the largest number of frames of a video.
      lengths: {split: {number of frames, as a text: number of videos with so many}}, where these are known.
      corrected: {split: (number of labels that decisions have added, number that they have removed)}.
      spans: {split: {what is said of its spans: number}}, see `span_cells`.
      bad: {number of a row: what is wrong with it}, for rows that were found bad while the records were written.
      files: the versions of the videos' files, the values of `FileVersions`; None if they were not saved.
    """

    inputs: str
    features: list[Any]
    shards: dict[str, Shard] = field(default_factory=dict)
    positives: dict[str, list[int]] = field(default_factory=dict)
    frames: dict[str, int] = field(default_factory=dict)
    longest: int = 0
    cut: int = 0
    lengths: dict[str, dict[str, int]] = field(default_factory=dict)
    corrected: dict[str, list[int]] = field(default_factory=dict)
    spans: dict[str, dict[str, int]] = field(default_factory=dict)
    bad: dict[str, str] = field(default_factory=dict)
    complete: bool = False
    files: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        self.shards = read_shards(self.shards)
        self.formats()  # raises if the values are none that `write` wrote
        if self.files is not None:
            newest, existing, *hashes = self.files
            self.files = FileVersions(int(newest), int(existing), *map(str, hashes))

    def matches(self, inputs: str, files: FileVersions, dense: Callable[[], str] | None = None) -> bool:
        """Whether the progress was saved for these inputs, and no file of a video was changed after that.

        `files` are the versions of the videos' files now; for `dense` see `FileVersions.has_changed_since`.
        """
        return self.inputs == inputs and (
            self.files is None or not files.has_changed_since(FileVersions(*self.files), dense)
        )

    def damage(self, folder: str) -> str:
        """Describes how a shard in `folder` differs from what was written, or which manifest is missing; or empty."""
        if storage.is_remote(folder):  # a listing of the bucket has the sizes and checksums, so nothing is read
            written = {name: (shard.bytes, int(shard.crc32c, 16)) for name, shard in self.shards.items()}
            contents = sending.contents(folder)
            changed = (name for name in written if contents.get(name) != written[name])
            damages = (f"{storage.join(folder, name)} is not what was written" for name in changed)
        else:
            sizes = {name: _size_of(storage.join(folder, name)) for name in self.shards}
            damages = (
                f"{storage.join(folder, name)} has {sizes[name]} bytes, but {shard.bytes} were written"
                for name, shard in self.shards.items()
                if sizes[name] != shard.bytes
            )
        return next(damages, "") or self._missing_manifest(folder)

    def _missing_manifest(self, folder: str) -> str:
        """Says which manifest of complete records is missing; empty if none is. Without it, bytes have no ranges."""
        splits = sorted({shard.split("/")[0] for shard in self.shards if self.complete})
        paths = (storage.join(folder, split, manifest.NAME) for split in splits)
        return next((f"{path} is missing" for path in paths if not storage.exists(path)), "")

    def formats(self) -> tuple[FeatureFormat, ...]:
        """The features as `FeatureFormat`s; `features` has them in the form that JSON can hold."""
        return tuple(FeatureFormat(name, size, bounds and tuple(bounds)) for name, size, bounds in self.features)


def read_shards(values: Mapping[str, Sequence[Any]]) -> dict[str, Shard]:
    """{path: content of a shard} of the JSON of such a dict.

    An earlier version saved a checksum as a number, and further numbers after it.
    """
    crcs = {path: crc if isinstance(crc, str) else f"{crc:08x}" for path, (_, _, crc, *_) in values.items()}
    if any(int(crc, 16) >> 32 for crc in crcs.values()):
        raise ValueError("a checksum of a shard has more than 32 bits")
    return {path: Shard(int(records), int(size), crcs[path]) for path, (records, size, *_) in values.items()}


def _size_of(path: str) -> int:
    return storage.size(path) if storage.exists(path) else 0
