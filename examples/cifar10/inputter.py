"""The files of a CIFAR-10 set and how they become batches."""

from __future__ import annotations

from collections.abc import Sequence

from examples.cifar10 import distortions
from examples.cifar10.records import RECORD_BYTES, Images, check_sizes, decode
from yt8m import storage
from yt8m.errors import UsageError
from yt8m.graph import Inputter
from yt8m.lazy import tf


class CifarInputter(Inputter):
    """Batches of `Images` from files in the binary format.

    Training shuffles, repeats without end and distorts; evaluation and inference read each record once,
    in order, and take the middle of each picture.

    Args:
      paths: the files.
      records_per_file: how many records each of them has.
      batch_size: examples per tower and step.
      is_training: shuffle, repeat and distort.
      seed: of the order and of the distortions.
    """

    def __init__(
        self, paths: Sequence[str], records_per_file: int, batch_size: int, is_training: bool, seed: int = 0
    ) -> None:
        self.paths, self.records_per_file = list(paths), records_per_file
        self.batch_size, self.is_training, self.seed = batch_size, is_training, seed
        self.example_order = {"records_per_file": records_per_file}

    def files(self) -> list[str]:
        """The files.

        Raises:
          UsageError: a file does not exist.
          RunError: a file has the wrong size.
        """
        for path in self.paths:
            if not storage.exists(path):
                raise UsageError(f"there is no {path}; fetch the set with --download, or use --generated")
        check_sizes(self.paths, self.records_per_file)
        return self.paths

    def dataset(self, files: tf.Tensor, batch_size: int) -> tf.data.Dataset:
        """Batches of pictures float32 [B, 24, 24, 3] and labels int32 [B]; in training all of one size."""
        records = tf.data.FixedLengthRecordDataset(files, RECORD_BYTES)
        if not self.is_training:
            return records.batch(batch_size).map(_central, num_parallel_calls=2).prefetch(2)
        # A buffer of two files is enough: each file is itself a random part of the set.
        shuffled = records.shuffle(2 * self.records_per_file, seed=self.seed).repeat()
        batches = shuffled.batch(batch_size, drop_remainder=True).enumerate()
        return batches.map(self._distorted, num_parallel_calls=2).prefetch(2)

    def _distorted(self, index: tf.Tensor, records: tf.Tensor) -> Images:
        images, labels = decode(records)
        return Images(distortions.distorted(images, self.seed, index), labels)


def _central(records: tf.Tensor) -> Images:
    images, labels = decode(records)
    return Images(distortions.central(images), labels)
