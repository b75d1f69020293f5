"""`yt8m verify FILES`: checks that shards are complete, and writes or checks a manifest of their record counts.

With `--deep` it also checks the content of each record: features, frames, labels, ratings and ids.
"""

from __future__ import annotations

import contextlib
import os
import sys
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import google_crc32c
from absl import logging

from yt8m import options, storage, terminal
from yt8m.config import data_fit
from yt8m.config.data_config import DataConfig
from yt8m.errors import RunError, UsageError, quantity
from yt8m.options import option, path_option
from yt8m.records import label_check, manifest, shards
from yt8m.records.deep_check import DeepCheck
from yt8m.records.manifest import DataFormat, Manifest, Shard
from yt8m.records.opened_data import DiscoveredFormat, open_data
from yt8m.records.shards import DamagedError, read_records

_SEGMENTS = ("positive segments", "annotated segments")
_SHOWN_PROBLEMS = 20  # largest number of problems that are printed for a shard


@dataclass(frozen=True)
class VerifyConfig(options.Checked):
    """The flags of `yt8m verify`."""

    data: tuple[str, ...] = option((), "shards, if no words after the flags name them", is_operand=True, is_path=True)
    manifest: str = path_option(
        "the manifest: shards are compared with it if the file exists; else it is written if no shard is damaged"
    )
    update: bool = option(False, "rewrite the manifest if it exists")
    deep: bool = option(False, "also check the content of each record: features, frames, labels, ids, NaN")
    feature_names: tuple[str, ...] = option(
        (), "with --deep: the features of each record [those of a shard's first record]"
    )
    feature_sizes: tuple[int, ...] = option((), "with --deep: the length of each of --feature_names")
    num_classes: int | None = option(None, "with --deep: labels must be below this number", minimum=1)
    json: bool = option(False, "print one JSON list rather than lines")

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.feature_names) != len(self.feature_sizes):
            raise UsageError("--feature_names and --feature_sizes: give one size for each name.")
        if not self.deep and (self.feature_names or self.num_classes is not None):
            raise UsageError(
                "--feature_names, --feature_sizes and --num_classes have an effect only with --deep: add --deep."
            )
        if self.update and not self.manifest:
            raise UsageError("--update needs --manifest=FILE, the manifest to rewrite.")


class VerifiedShard(NamedTuple):
    """The result of checking one shard.

    Attributes:
      shard: number of records, size and checksum. If the shard cannot be read to its end: the number of records before
        the damage, the size of the file (0 if the disk reports an error), and the checksum `00000000`.
      problems: a text for each thing that is wrong; empty if the shard is sound.
      segments: the number of ratings above 0, and of segments in which every class is rated; None if the content was
        not checked, or if the records have no such segment.
    """

    path: str
    shard: Shard
    problems: list[str]
    segments: tuple[int, int] | None = None


def run(config: VerifyConfig, patterns: list[str]) -> int:
    """Checks the shards and prints the results.

    Returns the exit status, 1 if a shard is damaged, missing, or differs from the manifest.

    If all shards are sound, writes the manifest that --manifest names, unless it exists and --update is not set.

    Raises:
      UsageError: no file is named, or none matches, or a flag contradicts the manifest.
      RunError: the file named by --manifest is not a valid manifest, or cannot be written.
    """
    data = open_data(patterns, by_name=True, whole_folders=True)  # the manifest lists names
    paths = data.as_named
    for path, first in storage.named_twice(paths).items():
        logging.warning("%s is the file %s: it is checked, and listed in a manifest, under each name", path, first)
    with contextlib.suppress(RunError):  # of a damaged manifest
        label_check.warn(data, are_needed=False)
    expected = _manifest_to_check(config)
    checker = DeepCheck(dict(zip(config.feature_names, config.feature_sizes, strict=True)), config.num_classes)
    formats = {path: _declared_format(config, path) for path in paths} if config.deep else {}
    results = [
        verify(path, checker if config.deep else None, expected, formats.get(path))
        for path in terminal.with_progress(paths, len(paths), "shards")
    ]
    # The manifest may name more shards than the command line. Only those that do not exist are reported as missing.
    expected_paths = expected.shards if expected is not None else ()
    missing = sorted(path for path in expected_paths if path not in paths and not storage.exists(path))
    _print_results(results, missing, config.json)
    if missing or any(result.problems for result in results):
        return 1
    if config.manifest and expected is None:
        previous_manifest = _read_manifest_if_valid(config.manifest)
        manifest.write(config.manifest, {result.path: result.shard for result in results}, *previous_manifest[2:6])
        print(f"wrote {config.manifest}", file=sys.stderr)
    return 0


def _manifest_to_check(config: VerifyConfig) -> Manifest | None:
    """The manifest to compare the shards with; None if --manifest is not given, or the file is to be written."""
    if not config.manifest or config.update or not storage.exists(config.manifest):
        return None
    return manifest.read(config.manifest)


def _declared_format(config: VerifyConfig, path: str) -> DataFormat | None:
    """The format of a shard's records according to its manifest; None if there is none."""
    source = config.manifest or storage.join(os.path.dirname(path), manifest.NAME)
    declared_format = _read_manifest_if_valid(source).data
    if declared_format is not None:
        names = options.paths_where(DataConfig, shapes="variables")
        flags = {name: value for name in names if (value := getattr(config, name, None)) not in ((), None)}
        data_fit.refuse_contradiction(flags, DiscoveredFormat(declared_format, source, True))
    return declared_format


def _read_manifest_if_valid(path: str) -> Manifest:
    """Reads a manifest; returns an empty one if the file is missing or damaged."""
    with contextlib.suppress(RunError):
        return manifest.read(path)
    return Manifest((), {})


def verify(
    path: str,
    checker: DeepCheck | None = None,
    expected: Manifest | None = None,
    declared_format: DataFormat | None = None,
) -> VerifiedShard:
    """Reads and checks a whole shard.

    Args:
      checker: checks the content of each record; None to check only that it is an Example or SequenceExample.
      expected: the manifest to compare the shard with; None to skip this.
    """
    problems: list[str] = []
    count, crc, size = 0, 0, 0
    if checker is not None:
        checker.begin_shard(declared_format)
    try:
        with storage.open_read(path) as file:
            reader = _ChecksumReader(file)
            for payload in read_records(reader, path):  # type: ignore[arg-type]
                content_problems = (
                    checker.problems(payload, f"{path}, record {count}") if checker else _parse_problems(payload)
                )
                problems += [f"record {count}: {problem}" for problem in content_problems]
                count += 1
            crc, size = reader.crc, reader.size
            if not count:
                problems.append(shards.EMPTY)
    except DamagedError as error:
        problems.append(f"record {error.record}: {error.what}")
        size = storage.size(path)
    except (RunError, OSError) as error:
        problems.append(str(error))
    shard = Shard(count, size, f"{crc:08x}")
    segments = (checker.positive, checker.annotated) if checker and checker.annotated else None
    return VerifiedShard(path, shard, problems or _differences(path, shard, expected), segments)


def _parse_problems(payload: bytes) -> list[str]:
    """Describes why a record is no Example or SequenceExample; empty if it is one."""
    try:
        shards.parse(payload, with_lists=False)
    except ValueError as error:
        return [f"{shards.NO_PROTO}: {error}"]
    return []


def _differences(path: str, shard: Shard, expected_manifest: Manifest | None) -> list[str]:
    """Describes the differences between an undamaged shard and the manifest; empty if there is no manifest.

    Args:
      expected_manifest: the manifest; None if there is none.
    """
    if expected_manifest is None:
        return []
    if expected_manifest.expected(path) is None:
        return [f"{expected_manifest.sources[0]} does not list this shard; --update rewrites the manifest"]
    return expected_manifest.differences(path, **shard._asdict())


class _ChecksumReader:
    """Wraps a file and computes the size and the checksum of the bytes read from it.

    Attributes:
      crc: the CRC-32C of these bytes.
      size: the number of these bytes.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self.crc, self.size = file, 0, 0

    def read(self, size: int) -> bytes:
        """Reads at most `size` bytes, and adds them to the size and the checksum."""
        data = self._file.read(size)
        self.crc = google_crc32c.extend(self.crc, data)
        self.size += len(data)
        return data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def _print_results(results: list[VerifiedShard], missing: list[str], as_json: bool) -> None:
    """Prints the results on stdout."""
    if as_json:
        rows: list[Any] = [
            {
                "path": result.path,
                **result.shard._asdict(),
                **(dict(zip(_SEGMENTS, result.segments, strict=True)) if result.segments else {}),
                "problems": result.problems,
            }
            for result in results
        ]
        rows += [{"path": path, "problems": ["the file is gone"]} for path in missing]
        terminal.print_json(rows)
        return
    for result in results:
        ending = "".join(f", {count} {name}" for name, count in zip(_SEGMENTS, result.segments or (), strict=False))
        ending += "" if result.problems else ", sound"
        print(
            f"{result.path}: {quantity(result.shard.records, 'record')}, {quantity(result.shard.bytes, 'byte')}{ending}"
        )
        for problem in result.problems[:_SHOWN_PROBLEMS]:
            print(f"  {problem}")
        if len(result.problems) > _SHOWN_PROBLEMS:
            print(f"  and {len(result.problems) - _SHOWN_PROBLEMS} more")
    for path in missing:
        print(f"{path}: the file is gone, but the manifest names it")
