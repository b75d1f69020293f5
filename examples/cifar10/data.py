"""Which files a run reads."""

from __future__ import annotations

from typing import NamedTuple

from absl import logging

from examples.cifar10 import generated
from examples.cifar10.config import DataConfig
from examples.cifar10.download import FILES, FOLDER, download
from examples.cifar10.inputter import CifarInputter
from yt8m import storage

TRAIN_FILES, TEST_FILE = FILES[:-1], FILES[-1]
NATIVE_RECORDS_PER_FILE = 10_000


class DataSet(NamedTuple):
    """The files of a set: `TRAIN_FILES` and `TEST_FILE` in `folder`, each of so many records."""

    folder: str
    records_per_file: int

    @property
    def is_generated(self) -> bool:
        """Whether this is the generated set."""
        return self.records_per_file != NATIVE_RECORDS_PER_FILE

    def training(self, batch_size: int, seed: int) -> CifarInputter:
        """The training files, shuffled, repeated and distorted."""
        paths = [storage.join(self.folder, name) for name in TRAIN_FILES]
        return CifarInputter(paths, self.records_per_file, batch_size, is_training=True, seed=seed)

    def test(self, batch_size: int) -> CifarInputter:
        """The test file, once, in order."""
        path = storage.join(self.folder, TEST_FILE)
        return CifarInputter([path], self.records_per_file, batch_size, is_training=False)


def prepare(config: DataConfig) -> DataSet:
    """The requested set, downloaded or generated if necessary.

    Without --generated and --download it is CIFAR-10 if `data_dir` has it, else the generated set.

    Raises:
      RunError: it cannot be fetched or written.
    """
    native = storage.join(config.data_dir, FOLDER)
    if config.download:
        download(config.data_dir)
    if not config.generated and storage.exists(native):
        return DataSet(native, NATIVE_RECORDS_PER_FILE)
    folder = storage.join(config.data_dir, "generated")
    if not config.generated:
        logging.info("there is no %s: using the generated set; --download fetches CIFAR-10", native)
    for index, name in enumerate(FILES):
        generated.make(storage.join(folder, name), index)
    return DataSet(folder, generated.RECORDS)
