"""Says when a model is evaluated on videos that it was trained on: the figures would be better than those of others.

A file is one of the training under whatever name: through a link, by another spelling of its path, or as a copy. Data
that are small enough to be read for it are compared by the ids of their videos too.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence

import google_crc32c
from absl import logging

from yt8m import storage
from yt8m.errors import RunError, UsageError
from yt8m.records import shards
from yt8m.records.opened_data import OpenedData, open_data

# Up to so many bytes of evaluated and training data are read for the ids of their videos: a fraction of a second.
_MOST_READ = 1 << 27
_LONGEST_ID = 100  # characters of an id that are shown
_told: set[str] = set()  # the warnings that the log has


def warn(data: OpenedData, training_pattern: str, flag: str = "data") -> None:
    """Logs a warning, once, if `data` are evaluated and have files or videos of the training.

    Args:
      training_pattern: names the files of the training; nothing is said if they are not there any more.
      flag: the flag that names `data`.
    """
    problem = describe(data, training_pattern)
    message = f"--{flag}={data.pattern}: {problem}"
    if problem and message not in _told:
        _told.add(message)
        logging.warning(message)


def describe(data: OpenedData, training_pattern: str) -> str:
    """Says which files or videos of `data` are those of the training; empty if none is, or if nobody knows."""
    trained = _training_files(training_pattern, data.files)
    if not trained:
        return ""
    first_by_file = _same_files(data.files, trained) or _copies(data.files, trained)
    if first_by_file:
        path, first = next(iter(first_by_file.items()))
        which = path if path == first else f"{path}, which is {first}"
        shared = f"{len(first_by_file)} of the {len(data.files)} files are files of the training, such as {which}"
    else:
        shared = _shared_ids(data.files, trained)
    return shared and f"{shared}; figures on them say what the model remembers, not how good it is on other videos"


def _training_files(pattern: str, files: Sequence[str]) -> Sequence[str]:
    """The files of the training, if they lie where the evaluated files lie: a bucket is not listed for local ones."""
    are_remote = [storage.is_remote(path) for path in files]
    if not pattern or storage.is_remote(pattern) != (all(are_remote) and bool(files)):
        return ()
    with contextlib.suppress(UsageError, RunError, OSError):
        return open_data(pattern).files
    return ()


def _same_files(files: Sequence[str], trained: Sequence[str]) -> dict[str, str]:
    """{path among `files`: a path of the training that names the same file}."""
    names = {storage.absolute(path): path for path in trained}
    by_name = {path: names[storage.absolute(path)] for path in files if storage.absolute(path) in names}
    of_training = set(trained)
    linked = storage.named_twice([*trained, *files])
    return by_name | {path: first for path, first in linked.items() if path in set(files) and first in of_training}


def _copies(files: Sequence[str], trained: Sequence[str]) -> dict[str, str]:
    """{path among `files`: a file of the training with the same content}. Only files of equal sizes are read."""
    local = [path for path in (*files, *trained) if not storage.is_remote(path)]
    paths_by_size = defaultdict(list)
    for path, stamp in storage.stamps(local).items():
        paths_by_size[stamp.bytes].append(path)
    evaluated = set(files)
    mixed = [paths for paths in paths_by_size.values() if 0 < len(evaluated.intersection(paths)) < len(paths)]
    checksums = storage.dense_samples(list(itertools.chain.from_iterable(mixed)))
    originals = {checksums[path]: path for path in trained if path in checksums}
    return {path: originals[checksums[path]] for path in files if checksums.get(path) in originals}


def _shared_ids(files: Sequence[str], trained: Sequence[str]) -> str:
    """Says how many videos have the ids of training videos; empty if none has, or if the data are too large to read.

    Ids that are numbers may be those of rows, so such a video counts only if its record is the same.
    """
    if any(map(storage.is_remote, files)):
        return ""
    if sum(stamp.bytes for stamp in storage.stamps([*files, *trained]).values()) > _MOST_READ:
        return ""
    evaluated, of_training = _records_by_id(files), _records_by_id(trained)
    shared = [
        name
        for name, checksum in evaluated.items()
        if name in of_training and (not name.isdigit() or of_training[name] == checksum)
    ]
    if not shared:
        return ""
    example = shards.id_text(shared[0])[:_LONGEST_ID]
    return f"{len(shared)} of the {len(evaluated)} videos have ids of training videos, such as {example}"


def _records_by_id(files: Sequence[str]) -> Mapping[bytes, int]:
    """{id of a video: checksum of its record}; of a damaged file, those before the damage."""
    checksums: dict[bytes, int] = {}
    for path in files:
        with contextlib.suppress(RunError, OSError):
            for payload, record in shards.read_contexts(path):
                checksums[record.id()] = google_crc32c.value(payload)
    checksums.pop(b"", None)
    return checksums
