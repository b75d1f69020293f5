"""Folders of records in place of patterns: a whole data set is named, and each program takes the files it is for.

make-records and extract write `LEVEL/SPLIT/*.tfrecord`, and YouTube-8M's shards of a level lie in one folder, as
`train*.tfrecord`, `validate*.tfrecord` and `test*.tfrecord`. Both are known.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from absl import logging

from yt8m import storage
from yt8m.errors import UsageError

TRAIN = "train"
VALIDATE = "validate"
TEST = "test"
_SHARDS = "*.tfrecord"
_DEPTHS = ("", "*/", "*/*/")  # where shards lie in a folder: the first of these that has any


def of_split(pattern: str, *splits: str) -> str:
    """The pattern of a split in a folder of records: that of the first of `splits` that is there, which the log names.

    A pattern that names no folder, or a folder without splits, is returned as it is: `open_data` says what is the
    matter with it. A folder that has other splits alone, or the split at several levels, is refused.
    """
    if not is_folder(pattern):
        return pattern
    for split in splits:
        if patterns := list(_patterns_of(pattern, split)):
            if len(patterns) > 1:
                raise UsageError(f"{pattern} has its split {split} more than once; name {_quoted(patterns)}.")
            logging.info("%s: its split %s is read, %s", pattern, split, patterns[0])
            return patterns[0]
    if others := [each for split in (TRAIN, VALIDATE, TEST) for each in _patterns_of(pattern, split)]:
        raise UsageError(f"{pattern} has no split {' or '.join(splits)}; its files are {_quoted(others)}: name them.")
    return pattern


def of_training(pattern: str) -> str:
    """The files to train on in a folder; see `of_split`."""
    return of_split(pattern, TRAIN)


def of_validation(pattern: str) -> str:
    """The files to validate a training on in a folder; see `of_split`."""
    return of_split(pattern, VALIDATE, TEST)


def of_evaluation(pattern: str) -> str:
    """The files to evaluate a model on in a folder; see `of_split`."""
    return of_split(pattern, TEST, VALIDATE)


def shards_in(folder: str, *, whole: bool = False) -> list[str]:
    """The shards in the one place of a folder that has any, or in all its places if `whole`; none without shards.

    Shards in several places are refused, because it must be said which are meant.
    """
    paths = next(filter(None, (storage.glob_in(folder, f"{depth}{_SHARDS}") for depth in _DEPTHS)), [])
    places = sorted({os.path.dirname(path) for path in paths})
    if len(places) > 1 and not whole:
        patterns = _quoted([storage.pattern_in(place, _SHARDS) for place in places])
        raise UsageError(f"{folder} is a folder with records in several places; name the files in it: {patterns}.")
    return paths


def is_folder(pattern: str) -> bool:
    """Whether a pattern is the path of one folder. In a bucket, names of shards and patterns cost no request."""
    if storage.is_remote(pattern) and ("," in pattern or ".tfrecord" in pattern or storage.is_pattern(pattern)):
        return False
    return storage.is_dir(pattern)


def _patterns_of(folder: str, split: str) -> Iterator[str]:
    """The pattern of each place in a folder, or in the folders in it, that has shards of a split.

    Shards `train/train*.tfrecord` have both forms, and are the split once.
    """
    seen: list[set[str]] = []
    for depth in _DEPTHS[:2]:
        for names in (f"{split}/{_SHARDS}", f"{split}{_SHARDS}"):
            paths = storage.glob_in(folder, f"{depth}{names}")
            for place in sorted({os.path.dirname(path) for path in paths}):
                shards = {path for path in paths if os.path.dirname(path) == place}
                if shards not in seen:
                    seen.append(shards)
                    yield storage.pattern_in(place, os.path.basename(names))


def _quoted(patterns: list[str]) -> str:
    """Up to three patterns, for a message."""
    return " or ".join(f"'{each}'" for each in patterns[:3])
