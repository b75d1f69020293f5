"""Each replica reads a part of the data of its own; together they read all of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from yt8m.errors import UsageError
from yt8m.graph import Inputter
from yt8m.lazy import tf


def take(inputter: Inputter, replica: int, replicas: int) -> Inputter:
    """The part of `inputter` that one of `replicas` reads.

    An inputter with a method `share(index, count)` divides itself; of another one's files every n-th
    is taken.

    Raises:
      UsageError: there are fewer files than replicas, and the inputter cannot divide them.
    """
    share = getattr(inputter, "share", None)
    if share is not None:
        return share(replica, replicas)
    files = list(inputter.files())
    if len(files) < replicas:
        raise UsageError(
            f"there are {len(files)} files for {replicas} processes, and {type(inputter).__name__} has no "
            "method share(index, count) that divides the records of a file. Cut the data into more files, "
            "or start fewer workers."
        )
    return _SomeFiles(inputter, files[replica::replicas])


class _SomeFiles:
    """An inputter that reads some of another one's files."""

    def __init__(self, inputter: Inputter, files: Sequence[str]) -> None:
        self._inputter, self._files = inputter, list(files)
        self.batch_size = inputter.batch_size

    def files(self) -> Sequence[str]:
        """The part."""
        return self._files

    def dataset(self, files: tf.Tensor, batch_size: int) -> Any:
        """As the whole inputter makes it."""
        return self._inputter.dataset(files, batch_size)
