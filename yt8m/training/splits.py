"""Finds the other splits of the training data, which lie beside them: `validate` and `test` in place of `train`."""

from __future__ import annotations

import re
from collections.abc import Iterator

from yt8m import storage

_TRAIN = re.compile(r"\btrain(?![a-z])")  # not the beginning of another word, such as `training`


def beside(pattern: str, split: str) -> str:
    """The pattern of the files of another split beside training files; empty if there are none.

    Args:
      pattern: that of the training files, or several, separated by commas.
    """
    return ",".join(filter(None, (_of_one(part, split) for part in pattern.split(","))))


def proposed(pattern: str, split: str) -> str:
    """The pattern of another split beside training files, or where it would lie if there is none."""
    return beside(pattern, split) or ",".join(next(_renamed(part, split), part) for part in pattern.split(","))


def _of_one(pattern: str, split: str) -> str:
    return next((other for other in _renamed(pattern, split) if storage.glob(other)), "")


def _renamed(pattern: str, split: str) -> Iterator[str]:
    """The pattern with the name of the split in place of `train`, in each way that may be meant, the likeliest first.

    They are: in the last folder and the names of the files; in one place, from the last one on; and everywhere. So the
    word may also be that of a folder in which all the data lie.
    """
    tail = pattern.rfind("/", 0, max(pattern.rfind("/"), 0)) + 1
    if _TRAIN.search(pattern, tail):
        yield pattern[:tail] + _TRAIN.sub(split, pattern[tail:])
    for place in reversed(list(_TRAIN.finditer(pattern))):
        yield pattern[: place.start()] + split + pattern[place.end() :]
    if _TRAIN.search(pattern):
        yield _TRAIN.sub(split, pattern)
