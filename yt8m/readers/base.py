"""What every reader is: records in, a `Batch` out."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING

from yt8m.errors import UsageError
from yt8m.readers.finite import ZeroedCount
from yt8m.types import Batch

if TYPE_CHECKING:
    import tensorflow.compat.v1 as tf


class Reader(abc.ABC):
    """Knows the names and sizes of the features and how they lie in a record.

    Attributes:
      num_classes: C, size of the vocabulary.
      feature_sizes: values of each feature (of one frame), in the order of the names.
      feature_names: names of the features in the records.
      nan_policy: refuse or zero, what is done about features that are NaN, infinite or too large.
      zeroed: counts the values that were set to 0, where somebody wants to know.
    """

    zeroed: ZeroedCount | None = None

    def __init__(
        self,
        num_classes: int,
        feature_sizes: Sequence[int],
        feature_names: Sequence[str],
        nan_policy: str = "refuse",
    ) -> None:
        """Checks what it is given.

        Raises:
          UsageError: names and sizes of unequal count, a name twice, a size or class count below 1, an
            unknown policy.
        """
        if nan_policy not in ("refuse", "zero"):
            raise UsageError(f"--nan_policy={nan_policy}: expected refuse or zero.")
        self.nan_policy = nan_policy
        self.num_classes = at_least_one("num_classes", num_classes)
        self.feature_sizes = tuple(at_least_one("feature_sizes", size) for size in feature_sizes)
        self.feature_names = tuple(feature_names)
        self._check_names()

    def _check_names(self) -> None:
        names, sizes = self.feature_names, self.feature_sizes
        if len(names) != len(sizes) or not names:
            raise UsageError(
                f"--feature_names has {len(names)} entries ({', '.join(names)}) and --feature_sizes has "
                f"{len(sizes)} ({', '.join(map(str, sizes))}); give one size for each name, and at least one."
            )
        if len(set(names)) < len(names):
            raise UsageError(f"--feature_names names a feature twice: {', '.join(names)}")

    @abc.abstractmethod
    def prepare_serialized_examples(self, serialized: tf.Tensor) -> Batch:
        """Parses a vector of records in bulk.

        Args:
          serialized: string [B].
        """

    @abc.abstractmethod
    def video_matrix(self, batch: Batch) -> tf.Tensor:
        """The features of a batch as one float32 tensor."""


def at_least_one(name: str, value: int) -> int:
    """`value`, or UsageError where it is below 1."""
    if value < 1:
        raise UsageError(f"--{name} is {value}; it must be at least 1.")
    return int(value)
