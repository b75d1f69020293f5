"""The data of a program that names none: the sample data, which the first such program generates."""

from __future__ import annotations

import dataclasses

from absl import logging

from yt8m import storage
from yt8m.config.data_config import DataConfig
from yt8m.errors import UsageError
from yt8m.records import vocabulary
from yt8m.records.opened_data import open_data


def default_to_sample_data(data: DataConfig, split: str) -> DataConfig:
    """Returns `data` with the shards of one split of the sample data as its files.

    The first call generates the sample data and writes them into the user's cache folder.
    """
    # Imported here, because this package imports rich for a progress bar, and most runs name their files.
    from yt8m.datasets import sample_data

    if data.reader:
        raise UsageError(
            f"no data were named, and the sample data are laid out as YouTube-8M's, not as --reader={data.reader} "
            "reads them: name the files to read."
        )
    names = open_data(None, vocabulary=data.vocabulary).vocabulary
    if names:
        remedy = "No data were named: name the files to read, or leave out --vocabulary."
        vocabulary.load().refuse_other(names, "the sample data", names.path, remedy)
    level = level_of(data)
    folder = sample_data.default_sample_data(level)
    logging.info("no data were named: this is SAMPLE DATA made by yt8m, in %s", folder)
    return dataclasses.replace(data, data_pattern=storage.pattern_in(storage.join(folder, level, split), "*.tfrecord"))


def level_of(data: DataConfig) -> str:
    """The level of the records that a config reads: video, frame or segment."""
    if not data.frame_features:
        return "video"
    return "segment" if data.segment_labels else "frame"
