"""manifest.json: the number of records, size and checksum of each shard, and the format of the records.

    {"format": "yt8m manifest 1",
     "shards": {"train0000.tfrecord": {"records": 1024, "bytes": 5318272, "crc32c": "1f2e3d4c"}, ...},
     "data": {"level": "video", "features": [{"name": "clip", "size": 16}], ...},
     "extractors": [{"name": "inception", "feature": "rgb", "range": [-2, 2], "frames_per_second": 1,
                     "max_frames": 300, "sampling": "published-3", "settings": {...},
                     "weights": {"inception_graph": "<sha256>", ...}}, ...],
     "split": "train",
     "corrections": {"file": "decisions.csv", "sha256": "...", "labels added": 12, "labels removed": 30}}

Names of shards are relative to the manifest's folder; `crc32c` is the checksum of the whole file, which buckets report
too. The entries after `shards` are optional. `data` is described in `data_format`; the manifests of YouTube-8M's own
shards lack it. `extractors` describes the networks that computed the features, in the order of the command line, if
`yt8m extract` made the records; `package` is the name of the installed package that adds the extractor, if one does.
`split` is the name of the split to which the records belong, and `corrections` names the file of corrected labels that
`yt8m relabel` or `make-records` applied.

`count_records` counts the records of a shard by reading only their 12 header bytes each. If a shard was cut inside such
a header, TensorFlow regards the cut as the end of the shard, but `count_records` reports it as damage.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import MappingProxyType
from typing import IO, Any, BinaryIO, NamedTuple

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from yt8m import formats, storage
from yt8m.errors import RunError, UsageError, refusing
from yt8m.records import checksums, data_format, shards
from yt8m.records.data_format import DataFormat as DataFormat
from yt8m.records.data_format import FeatureFormat as FeatureFormat
from yt8m.records.data_format import whole_number
from yt8m.records.shards import DamagedError

NAME, _KIND = "manifest.json", "yt8m manifest"
FORMAT = f"{_KIND} {formats.MANIFEST}"
AROUND = 16  # bytes of a record besides its content: length, checksum of the length, checksum of the content
# Counting reads the headers of many short records with one read of `_CHUNK` bytes. After a record of more than `_LARGE`
# bytes it reads only `_HEADER` bytes, since the next header is probably far away.
_CHUNK, _HEADER, _LARGE = 1 << 18, 64, 1 << 16
_THREADS = 8  # number of shards whose records are counted at the same time
# {attribute of `Shard`: what the message about a difference says of the shard}
_CONTENT_TEXTS = {"records": "holds {} records", "bytes": "has {} bytes", "crc32c": "has the checksum {}"}
# The rule of sampling (see `extractors.sampling_rules`) of an entry of `extractors` that does not name one.
FIRST_RULE = "nearest-1"
# The end of messages about a shard that differs from its manifest.
REMEDY = "Fetch the shards again, or rewrite the manifest (yt8m verify --update)."


class Shard(NamedTuple):
    """What a manifest says about the content of a shard."""

    records: int
    bytes: int
    crc32c: str

    def extend(self, other: Shard) -> Shard:
        """The content of the shard after the records of `other` are appended."""
        crc = checksums.join_crcs(int(self.crc32c, 16), int(other.crc32c, 16), other.bytes)
        return Shard(self.records + other.records, self.bytes + other.bytes, f"{crc:08x}")


class Manifest(NamedTuple):
    """The content of one or several manifest files.

    Attributes:
      sources: the paths of the manifest files.
      shards: {absolute path: the content that the shard must have}.
      data: the format of the records; None if no file has it.
      describing: the paths of the files that have it.
      extractors, split, corrections: the entries of these names, which the text at the top of this module describes;
        empty if a file lacks the entry, or if the files have different ones.
    """

    sources: tuple[str, ...]
    shards: Mapping[str, Shard]
    data: DataFormat | None = None
    extractors: tuple[Mapping[str, Any], ...] = ()
    split: str = ""
    corrections: Mapping[str, Any] = MappingProxyType({})
    describing: tuple[str, ...] = ()

    def expected(self, path: str) -> Shard | None:
        """The content that the shard at `path` must have; None if no manifest names the shard."""
        return self.shards.get(storage.absolute(path))

    def differences(self, path: str, **content: Any) -> list[str]:
        """The differences between a shard and its manifest, such as `holds 5 records, but the manifest says 6`.

        Each text continues a sentence that begins with the shard's path. There are none if no manifest names the shard.

        Args:
          path: the path of the shard.
          content: the number of records, the size or the checksum that the shard really has, each under the name of the
            attribute of `Shard`.
        """
        expected = self.expected(path)
        return [
            f"{_CONTENT_TEXTS[name].format(value)}, but the manifest says {getattr(expected, name)}"
            for name, value in content.items()
            if expected is not None and value != getattr(expected, name)
        ]


def read(path: str) -> Manifest:
    """Reads one manifest file."""
    folder = os.path.dirname(path)

    def refusal(error: Exception) -> RunError:
        return RunError(
            f"{path} is not a {FORMAT!r} ({type(error).__name__}: {error}). "
            "Write it again with `yt8m verify FILES --manifest=...`, or move it away."
        )

    with refusing(refusal):
        written = storage.read_json(path)
        kind, _, number = written["format"].rpartition(" ")
        if kind != _KIND:
            raise ValueError(f"its format is {written['format']!r}")
        formats.refuse_newer(path, int(number), formats.MANIFEST)
        shards = {
            storage.absolute(storage.join(folder, name)): Shard(
                whole_number(values["records"]), whole_number(values["bytes"]), str(values["crc32c"])
            )
            for name, values in written["shards"].items()
        }
        data = data_format.parse(written["data"]) if "data" in written else None
        extractors = tuple(dict(extractor) for extractor in written.get("extractors", ()))
        split, corrections = str(written.get("split", "")), dict(written.get("corrections", {}))
    describing = (path,) if data is not None else ()
    return Manifest((path,), shards, data, extractors, split, corrections, describing)


def find(files: Sequence[str]) -> Manifest:
    """Reads and joins the manifests in the folders of some shards; the result has no shards if there is no manifest."""
    paths = [storage.join(folder, NAME) for folder in sorted({os.path.dirname(path) for path in files})]
    manifests = [read(path) for path in paths if storage.exists(path)]
    shards = {name: shard for part in manifests for name, shard in part.shards.items()}
    _refuse_mixed_rules(manifests)
    data = data_format.joined([(part.sources[0], part.data) for part in manifests if part.data is not None])
    joined = Manifest(tuple(source for part in manifests for source in part.sources), shards, data)
    joined = joined._replace(describing=tuple(path for part in manifests for path in part.describing))
    for name in ("extractors", "split", "corrections"):
        values = [getattr(part, name) for part in manifests]
        if values and all(value == values[0] for value in values):
            joined = joined._replace(**{name: values[0]})
    return joined


def _refuse_mixed_rules(manifests: Sequence[Manifest]) -> None:
    """Raises `RunError` if two manifests have rows of the same extractor that were made by different rules."""
    first_rules: dict[tuple[str, str], tuple[str, str]] = {}
    for part in manifests:
        for entry in part.extractors:
            key, rule = (str(entry.get("name")), str(entry.get("feature"))), str(entry.get("sampling", FIRST_RULE))
            other, source = first_rules.setdefault(key, (rule, part.sources[0]))
            if rule != other:
                raise RunError(
                    f"{source} has rows of {key[1]} that were made by the rule {other}, and {part.sources[0]} by the "
                    f"rule {rule}: a model would take both for the same. Extract one of the two again, into another "
                    "folder, with `yt8m extract --rules=N`, where N is the number at the end of the other rule."
                )


def write(
    path: str,
    shards: Mapping[str, Shard],
    data: DataFormat | None = None,
    extractors: Sequence[Mapping[str, Any]] = (),
    split: str = "",
    corrections: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Writes a manifest file; an existing one is replaced.

    Args:
      shards: {path of a shard: its content}.
      data: the format of the records; None if unknown.
      extractors, split, corrections: the entries of these names, which the text at the top of this module describes; an
        empty one is left out.
    """
    folder = os.path.dirname(storage.absolute(path))
    shards_by_name: dict[str, Any] = {}
    for shard_path, shard in shards.items():
        if storage.is_remote(path) != storage.is_remote(shard_path):
            raise UsageError(
                f"--manifest={path}: {shard_path} is elsewhere: one of the two is in a bucket, the other is not. "
                "Write the manifest beside the shards."
            )
        shards_by_name[os.path.relpath(storage.absolute(shard_path), folder)] = shard._asdict()
    content: dict[str, Any] = {"format": FORMAT, "shards": shards_by_name} | (
        {} if data is None else {"data": data.as_json()}
    )
    optional = {"extractors": list(extractors), "split": split, "corrections": dict(corrections)}
    content |= {name: value for name, value in optional.items() if value}
    text = json.dumps(content, indent=1, ensure_ascii=False)
    storage.write(path, text + "\n")


class ShardWriter:
    """Writes serialized records into an open file, and computes the manifest's entry for the file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._records, self._bytes, self._crc = file, 0, 0, 0

    def add(self, payload: bytes) -> None:
        """Writes one serialized record with its length and checksums."""
        framed = shards.framed(payload)
        self._file.write(framed)
        self._records, self._bytes = self._records + 1, self._bytes + len(framed)
        self._crc = google_crc32c.extend(self._crc, framed)

    def add_framed(self, records: NDArray[np.uint8]) -> None:
        """Writes records that have their lengths and checksums already: uint8 [records, bytes of a record]."""
        self._file.write(records.data)
        self._records, self._bytes = self._records + len(records), self._bytes + records.nbytes
        self._crc = google_crc32c.extend(self._crc, records)

    def content(self) -> Shard:
        """The number of records, size and checksum of what has been written so far."""
        return Shard(self._records, self._bytes, f"{self._crc:08x}")


def write_shard(path: str, payloads: Iterable[bytes]) -> Shard:
    """Writes serialized records into a shard atomically; an existing file is replaced."""
    with storage.write_atomic(path) as file:
        writer = ShardWriter(file)
        for payload in payloads:
            writer.add(payload)
    return writer.content()


def count_records(path: str) -> int:
    """Counts the records of a shard; a shard in a bucket is downloaded first."""
    with storage.open_read(path) as file:
        count = _count_headers(file)
    if count == 0:
        raise DamagedError(path, 0, shards.EMPTY)
    if count is None:
        raise _find_damage(path)
    return count


def count_all(paths: Sequence[str]) -> list[int | BaseException]:
    """Counts the records of each shard, in several threads; a count that fails is replaced by the error it raised."""
    with ThreadPoolExecutor(_THREADS) as threads:
        counts = [threads.submit(count_records, path) for path in paths]
    return [count.exception() or count.result() for count in counts]


# The checksums of all records are read of at most so many bytes of shards: a second or two if the files are cached.
_MOST_FINGERPRINTED = 4 << 30


def fingerprints(paths: Sequence[str]) -> dict[str, int | str]:
    """{path: checksum of the lengths and the checksums of all records} of the shards on this machine.

    It does not depend on the content of the records itself, so it stays if a damaged record is repaired, and if the
    file is copied. In place of that of large data, whose records would be read for minutes, is the version of the file
    (the time of its change and its inode), which another file that takes its place does not have.
    """
    local = [path for path in paths if not storage.is_remote(path)]
    stamps = storage.stamps(local)
    if sum(stamp.bytes for stamp in stamps.values()) > _MOST_FINGERPRINTED:
        return {path: f"{stamp.version} {stamp.status}" for path, stamp in stamps.items()}
    with ThreadPoolExecutor(_THREADS) as threads:
        return dict(zip(local, threads.map(_fingerprint, local), strict=True))


def versions(paths: Sequence[str]) -> list[tuple[str, int, int | str]]:
    """(absolute path, bytes, fingerprint or, of an object in a bucket, generation) of each shard, sorted."""
    checksums = fingerprints(paths)
    return sorted(
        (storage.absolute(path), stamp.bytes, checksums.get(path, stamp.version))
        for path, stamp in storage.stamps(paths).items()
    )


def _fingerprint(path: str) -> int:
    checksum = 0
    with contextlib.suppress(RunError, OSError), storage.open_read(path) as file:
        descriptor, offset, end = file.fileno(), 0, os.fstat(file.fileno()).st_size
        around = os.pread(descriptor, 12, 0)
        while len(around) >= 12 and offset < end:
            checksum = google_crc32c.extend(checksum, around)
            offset += 12 + int.from_bytes(around[-12:-4], "little")
            # The end of this record, and the start of the next; nothing if its length is wrong.
            around = os.pread(descriptor, AROUND, min(offset, end))
            offset += 4
        checksum = google_crc32c.extend(checksum, around)
    return checksum


def _count_headers(file: BinaryIO) -> int | None:
    """Counts records by following their lengths; None if the last record does not end at the end of the file."""
    descriptor, end = file.fileno(), os.fstat(file.fileno()).st_size
    offset = count = length = 0
    while offset < end:
        chunk = os.pread(descriptor, _HEADER if length > _LARGE else _CHUNK, offset)
        within = 0
        while within + 12 <= len(chunk):
            (length,) = struct.unpack_from("<Q", chunk, within)
            within += length + AROUND
            count += 1
        if within == 0:
            return None
        offset += within
    return count if offset == end else None


def _find_damage(path: str) -> DamagedError:
    """Reads a whole shard to find its first damaged record, and returns the error that describes it."""
    try:
        count = sum(1 for _ in shards.read_shard(path))
    except DamagedError as error:
        return error
    return DamagedError(path, count, "the file changed while it was read")
