"""Checks shards before they are read, and afterwards that all records were read; falls back to sample data.

If a shard was cut between two records, or inside the 12-byte header of one, TensorFlow reads it as a shorter shard and
reports no error. So the records of all local shards are first counted by their headers, and the counts are compared
with the manifest. After an evaluation or inference, the numbers of records read are compared with the counts.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Mapping, Sequence

from absl import logging

from yt8m import readers, storage
from yt8m.config.train_config import DataConfig
from yt8m.errors import RunError, UsageError, shortened
from yt8m.records import manifest, vocabulary
from yt8m.records.manifest import Manifest
from yt8m.storage.base import Stamp


def default_to_sample_data(data: DataConfig, split: str) -> DataConfig:
    """`data` with one split of the sample data as its files. The first call generates the sample data."""
    from yt8m.datasets import sample_data  # imports rich, for a progress bar that most runs never show

    if data.reader:
        raise UsageError(
            f"no data were named, and the sample data are laid out as YouTube-8M's, not as --reader={data.reader} "
            "reads them: name the files to read."
        )
    names = vocabulary.of_data(data.vocabulary)
    if names:
        remedy = "No data were named: name the files to read, or leave out --vocabulary."
        vocabulary.refuse_difference(vocabulary.load(), "the sample data", names, names.path, remedy)
    level = level_of(data)
    folder = sample_data.default_sample_data(level)
    logging.info("no data were named: this is SAMPLE DATA made by yt8m, in %s", folder)
    return dataclasses.replace(data, data_pattern=storage.join(folder, level, split, "*.tfrecord"))


def level_of(data: DataConfig) -> str:
    """The level of the records that a config reads: video, frame or segment."""
    if not data.frame_features:
        return "video"
    return "segment" if data.segment_labels else "frame"


class Walked:
    """The number of records of each shard at the start, to compare with the number read later.

    Shards in buckets are not counted beforehand: their numbers come from a manifest, or from the first pass over them.

    Args:
      inputter: the inputter after `check_input` has fixed its files.
      data: the data config of the run.
      expected: the manifests of the shards.
      counts: {path: number of records} of the local shards.
      stamps: {path: size and time of change}, taken before the records were counted.
    """

    def __init__(
        self,
        inputter: readers.BatchQueue,
        data: DataConfig,
        expected: Manifest,
        counts: Mapping[str, int],
        stamps: Mapping[str, Stamp],
    ) -> None:
        self._inputter, self._data, self._known = inputter, data, expected
        self._files, self._stamps, self._newer = inputter.files(), dict(stamps), 0
        remote = {path: expected.expected(path) for path in self._files if storage.is_remote(path)}
        self._held = dict(counts) | {path: shard.records for path, shard in remote.items() if shard is not None}

    def check_unchanged(self) -> None:
        """Call before another pass: recounts the records of shards whose size or time of change differs.

        Raises:
          RunError: a shard is gone, damaged, or holds another number of records; the message names the shard.
        """
        stamps = storage.stamps(self._files)
        changed = [path for path in self._files if stamps.get(path) != self._stamps.get(path)]
        still_existing = [path for path in changed if path in stamps]
        counts = _counts(still_existing, self._data.max_bad_records > 0)
        differences = [f"{path} is gone" for path in changed if path not in stamps]
        differences += [text for path in still_existing if (text := self._change(path, counts))]
        differences += _differences(still_existing, counts, self._known, False)
        _refuse(differences, "The shards changed after the first look at them: make them whole, and start again.")
        self._held = {path: n for path, n in self._held.items() if path not in still_existing} | counts
        self._stamps = stamps
        self._log_new_shards()

    def check_read(self, inputter: readers.BatchQueue) -> None:
        """Call after a complete pass: compares the number of records read from each shard with the number in it.

        Args:
          inputter: the inputter of the pass, which reads all of the data or the share of one process.

        Raises:
          RunError: more or fewer records were read than a shard holds; the message names the shard.
        """
        read, wanted = inputter.reads(), inputter.reads_of(self._held)
        unknown = [path for path, count in wanted.items() if count is None]
        now = storage.stamps(unknown)
        differences = [
            f"{path} should give {wanted[path]} records, but {count} were read"
            for path, count in read.items()
            if wanted[path] not in (None, count)
        ]
        differences += [f"{path} has changed" for path in unknown if now.get(path) != self._stamps.get(path)]
        _refuse(differences, "The shards changed while they were read: make them whole, and start again.")
        if inputter.reads_whole_files:
            self._held.update({path: read[path] for path in unknown})

    def _change(self, path: str, counts: Mapping[str, int]) -> str:
        """Describes the problem of a shard that was rewritten, in a few words; empty if there is none.

        A shard that is not in `counts` is damaged, and the run tolerates that.
        """
        if path not in self._held:
            return f"{path} was rewritten, and it is not known how many records it held"
        if counts.get(path, self._held[path]) != self._held[path]:
            return f"{path} holds {counts[path]} records, and held {self._held[path]}"
        logging.info("%s was rewritten; it holds as many records as before", path)
        return ""

    def _log_new_shards(self) -> None:
        newer = sorted({*self._inputter.matching_files()} - {*self._files})
        if len(newer) > self._newer:
            logging.warning(
                "%d shards, such as %s, appeared after the start and are not read; start again to read them",
                *(len(newer), newer[-1]),
            )
        self._newer = len(newer)


def check_input(
    inputter: readers.BatchQueue, data: DataConfig, is_training: bool = False, *, are_copies: bool = False
) -> Walked:
    """Refuses shards that are damaged or differ from the manifest. In training a difference is only a warning.

    The inputter is fixed to the files that match now. Except in training, it will count the records that it reads from
    each file. For shards in buckets only the sizes are compared with the manifest.

    Args:
      inputter: the inputter to check.
      data: the data config of the run.
      is_training: whether the inputter is that of a training.
      are_copies: whether this program has just copied the records into these shards; then no manifest is needed.

    Raises:
      UsageError: no file matches, or the manifest that was named does not exist.
      RunError: a shard is damaged or different; the message says what it holds and what it should hold.
    """
    files = inputter.keep_files()
    stamps = {} if is_training else storage.stamps(files)  # taken before counting, to notice changes during it
    counts = _counts([path for path in files if not storage.is_remote(path)], data.max_bad_records > 0)
    expected = _manifest(files, data)
    if not expected.shards and not are_copies:
        logging.info(
            "the numbers of records are not checked: there is no manifest of %s "
            "(yt8m verify FILES --manifest=... writes one)",
            data.data_pattern,
        )
    different = _differences(files, counts, expected, bool(data.manifest)) + _gone(files, expected, data)
    if not is_training:
        _refuse(different, manifest.REMEDY)
        inputter.count_reads()
    elif different:
        logging.warning("%s", shortened(different))
    _pass_counts(inputter, data, counts, expected)
    return Walked(inputter, data, expected, counts, stamps)


def _pass_counts(inputter: readers.BatchQueue, data: DataConfig, counts: Mapping[str, int], expected: Manifest) -> None:
    """Sets the counted and the expected records of an epoch on the inputter.

    Does nothing for segment data, for an inputter that repeats records, or if the record count of a shard is unknown.
    """
    files = inputter.files()
    if data.segment_labels or inputter.class_weights is not None or counts.keys() != set(files):
        return
    shards = {path: expected.expected(path) for path in files}
    inputter.records = sum(counts.values())
    inputter.expected_records = {
        path: counts[path] if shard is None else shard.records for path, shard in shards.items()
    }


def _refuse(differences: Sequence[str], what_to_do: str) -> None:
    if differences:
        raise RunError(f"{shortened(differences)}. {what_to_do}")


def _counts(files: Sequence[str], may_be_damaged: bool) -> dict[str, int]:
    """{path: number of records}.

    A damaged shard is left out if the run tolerates damage; otherwise it raises `RunError`.
    """
    counts: dict[str, int] = {}
    for path, count in zip(files, manifest.count_all(files), strict=True):
        if isinstance(count, int):
            counts[path] = count
        elif not may_be_damaged:
            raise count
    return counts


def _manifest(files: Sequence[str], data: DataConfig) -> Manifest:
    if not data.manifest:
        return manifest.find(files)
    storage.refuse_missing(data.manifest, "manifest", "yt8m verify FILES --manifest=... writes it")
    return manifest.read(data.manifest)


def _differences(files: Sequence[str], counts: dict[str, int], expected: Manifest, must_be_named: bool) -> list[str]:
    """How the shards differ from the manifest, each in a few words."""
    differences: list[str] = []
    unnamed = [path for path in files if expected.expected(path) is None]
    if unnamed and must_be_named:
        differences.append(f"{unnamed[0]} is not in {expected.sources[0]}")
    elif unnamed and expected.shards:
        logging.info(
            "the numbers of records are not checked: %s does not list %s", ", ".join(expected.sources), unnamed[0]
        )
    for path in files:
        content = {"records": counts[path]} if path in counts else {}
        if expected.expected(path) is not None and (content or storage.is_remote(path)):
            content["bytes"] = storage.size(path)
        differences += [f"{path} {difference}" for difference in expected.differences(path, **content)[:1]]
    return differences


def _gone(files: Sequence[str], expected: Manifest, data: DataConfig) -> list[str]:
    """Shards that the manifest names and the pattern matches, but that do not exist."""
    patterns = [storage.absolute(piece) for piece, _ in storage.paths_by_pattern(data.data_pattern)]
    existing = set(map(storage.absolute, files))
    return [
        f"{path} is gone, but the manifest names it"
        for path in expected.shards
        if path not in existing and any(fnmatch.fnmatch(path, pattern) for pattern in patterns)
    ]
