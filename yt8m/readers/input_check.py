"""Checks shards before they are read, and afterwards that all records were read.

If a shard was cut between two records, or inside the 12-byte header of one, TensorFlow reads it as a shorter shard and
reports no error. So the records of all local shards are first counted by their headers, and the counts are compared
with the manifest. After an evaluation or inference, the number of records read is compared with the sum of the counts,
and each shard must still be the same version of the file.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence

from absl import logging

from yt8m import storage
from yt8m.config.data_config import DataConfig
from yt8m.errors import RunError, quantity, shortened
from yt8m.readers.batch_queue import BatchQueue
from yt8m.records import manifest
from yt8m.records.manifest import Manifest


class CountedShards:
    """The number of records of each shard, and its version, to notice shards that are rewritten.

    Shards in buckets are not counted: their numbers come from a manifest, if there is one.

    Args:
      inputter: reads the shards; it has kept their stamps before the records were counted.
      counts: {path: number of records} of the local shards.
    """

    def __init__(self, inputter: BatchQueue, data: DataConfig, counts: Mapping[str, int]) -> None:
        self._inputter, self._opened, self._new_shard_count = inputter, inputter.keep_opened(), 0
        self._tolerates_damage, self._expected = data.max_bad_records > 0, self._opened.manifest
        remote = {path: self._expected.expected(path) for path in self._opened.files if storage.is_remote(path)}
        self._counts = dict(counts) | {path: shard.records for path, shard in remote.items() if shard is not None}

    def check_unchanged(self) -> None:
        """Counts the records of shards that have changed once more; call it before each further pass.

        A rewritten shard may only have as many records as before.
        """
        changed = self._inputter.keep_stamps()
        existing = [path for path in changed if path in self._counts and storage.exists(path)]
        counts = _count_records(existing, self._tolerates_damage)
        differences = [f"{path} has changed or is gone" for path in changed if path not in existing]
        differences += [
            f"{path} holds {count} records, but held {self._counts[path]} before"
            for path, count in counts.items()
            if count != self._counts[path]
        ]
        differences += _describe_differences(existing, counts, self._expected, False)
        _refuse(differences, "The shards changed after they were first counted: restore them, and start again.")
        if existing:
            logging.info(
                "rewritten with as many records: %s, such as %s", quantity(len(existing), "shard"), existing[0]
            )
        self._log_new_shards()

    def check_read(self) -> None:
        """Refuses shards that changed while they were read, or gave too few records; call it after a complete pass."""
        inputter, expected = self._inputter, self._inputter.records_to_read(self._counts)
        differences = [f"{path} has changed or is gone" for path in inputter.changed_files()]
        if not differences and expected is not None and expected != inputter.records_read:
            files = inputter.files()
            differences = [
                f"{quantity(len(files), 'shard')}, such as {files[0]}, should give {quantity(expected, 'record')}, but "
                f"{inputter.records_read} were read"
            ]
        _refuse(differences, "The shards changed while they were read: restore them, and start again.")

    def _log_new_shards(self) -> None:
        """Logs a warning if more shards than at the last call match the patterns but are not read."""
        new_shards = sorted({*self._opened.again().files} - {*self._opened.files})
        if len(new_shards) > self._new_shard_count:
            logging.warning(
                "%d shards, such as %s, appeared after the start and are not read; start again to read them",
                *(len(new_shards), new_shards[-1]),
            )
        self._new_shard_count = len(new_shards)


def check_input(
    inputter: BatchQueue, data: DataConfig, is_training: bool = False, *, are_copies: bool = False
) -> CountedShards:
    """Refuses shards that are damaged or differ from the manifest. In training, a difference is only a warning.

    After this call, the inputter reads only the files that matched its patterns during the call. Except in training,
    the inputter then counts the records that it reads. For a shard in a bucket, only the size is compared with the
    manifest.

    Args:
      are_copies: whether this program has just copied the records into these shards; then nothing is logged if there is
        no manifest.
    """
    opened = inputter.keep_opened()
    files, expected = opened.files, opened.manifest
    inputter.keep_stamps()  # before the records are counted, so that a change of a file during the count is noticed
    counts = _refuse_damaged(opened.counts, data.max_bad_records > 0)
    if not expected.shards and not are_copies:
        logging.info(
            "the numbers of records are not checked: there is no manifest of %s "
            "(yt8m verify FILES --manifest=... writes one)",
            data.data_pattern,
        )
    differences = _describe_differences(files, counts, expected, bool(data.manifest))
    differences += _missing_shards(files, expected, data)
    if not is_training:
        _refuse(differences, manifest.REMEDY)
        inputter.count_reads()
    elif differences:
        logging.warning("%s", shortened(differences))
    _pass_counts(inputter, data, counts, expected)
    return CountedShards(inputter, data, counts)


def _pass_counts(inputter: BatchQueue, data: DataConfig, counts: Mapping[str, int], expected: Manifest) -> None:
    """Gives the inputter the counted and the expected number of records of an epoch.

    Does nothing if an epoch may have another number of examples than the shards have records (segments, videos that are
    held out, classes that are read more often), or if the number of records of a shard is unknown.
    """
    files = inputter.files()
    if data.segment_labels or inputter.class_weights is not None or inputter.held_out or counts.keys() != set(files):
        return
    shards = {path: expected.expected(path) for path in files}
    inputter.records = sum(counts.values())
    inputter.expected_records = {
        path: counts[path] if shard is None else shard.records for path, shard in shards.items()
    }


def _refuse(differences: Sequence[str], remedy: str) -> None:
    """Raises `RunError` if there are differences; `remedy` is the sentence that ends the message."""
    if differences:
        raise RunError(f"{shortened(differences)}. {remedy}")


def _count_records(files: Sequence[str], may_be_damaged: bool) -> dict[str, int]:
    """Counts the records of each file by its headers; returns {path: number}.

    A damaged shard is left out of the result if `may_be_damaged`; otherwise it raises `RunError`.
    """
    return _refuse_damaged(dict(zip(files, manifest.count_all(files), strict=True)), may_be_damaged)


def _refuse_damaged(counts: Mapping[str, int | BaseException], may_be_damaged: bool) -> dict[str, int]:
    """Raises the first error among the counts, or leaves the damaged shards out if `may_be_damaged`."""
    errors = [count for count in counts.values() if not isinstance(count, int)]
    if errors and not may_be_damaged:
        raise errors[0]
    return {path: count for path, count in counts.items() if isinstance(count, int)}


def _describe_differences(
    files: Sequence[str], counts: Mapping[str, int], expected: Manifest, must_be_listed: bool
) -> list[str]:
    """Describes the first difference between each shard and the manifest; one text for all unlisted shards together."""
    differences: list[str] = []
    unlisted_shards = [path for path in files if expected.expected(path) is None]
    if unlisted_shards and must_be_listed:
        differences.append(f"{unlisted_shards[0]} is not in {expected.sources[0]}")
    elif unlisted_shards and expected.shards:
        logging.info(
            "%d of %d shards are not in %s, such as %s: the numbers of records of these shards are not checked",
            *(len(unlisted_shards), len(files), ", ".join(expected.sources), unlisted_shards[0]),
        )
    for path in files:
        content = {"records": counts[path]} if path in counts else {}
        if expected.expected(path) is not None and (content or storage.is_remote(path)):
            content["bytes"] = storage.size(path)
        differences += [f"{path} {difference}" for difference in expected.differences(path, **content)[:1]]
    return differences


def _missing_shards(files: Sequence[str], expected: Manifest, data: DataConfig) -> list[str]:
    """Describes each shard that the manifest lists and the pattern matches, but that does not exist."""
    patterns = [storage.absolute(piece) for piece, _ in storage.paths_by_pattern(data.data_pattern)]
    existing = set(map(storage.absolute, files))
    return [
        f"{path} is gone, but the manifest names it"
        for path in expected.shards
        if path not in existing
        and any(fnmatch.fnmatch(path, pattern) for pattern in patterns)
        and not storage.exists(path)  # it exists if it is another name of a file that is read
    ]
