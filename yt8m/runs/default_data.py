"""The data of a program that names none: the sample data, which the first such program generates.

A bare training of train.py takes them (`training.missing_data` says which one is bare), and so do a bare evaluation
and a bare inference of a run that was trained on them. For a run of other data the files are missing, and everybody
hears so before anything is generated.
"""

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
    cached = sample_data.cached_sample_data(level)
    logging.info("no data were named: this is SAMPLE DATA made by yt8m, in %s", cached.out)
    folder = sample_data.generate_once(cached)
    return dataclasses.replace(data, data_pattern=storage.pattern_in(storage.join(folder, level, split), "*.tfrecord"))


def sample_data_of_run(run_dir: str, trained_on: DataConfig, data: DataConfig, split: str, flag: str) -> DataConfig:
    """`default_to_sample_data` for a run that was trained on the sample data; raises `UsageError` for another run.

    Args:
      run_dir: the folder of the run.
      trained_on: the data of the run's training.
      flag: the flag that names the files, for the message.
    """
    if not is_sample_data(trained_on):
        files = trained_on.data_pattern or "files that it does not name"
        raise UsageError(
            f"--{flag} is missing: the run in {run_dir} was trained on {files}; name the files to read (--data for "
            "short)."
        )
    return default_to_sample_data(data, split)


def is_sample_data(data: DataConfig) -> bool:
    """Whether these are the sample data that a program takes if none are named."""
    from yt8m.datasets import sample_data

    return sample_data.is_cached(data.data_pattern)


def level_of(data: DataConfig) -> str:
    """The level of the records that a config reads: video, frame or segment."""
    if not data.frame_features:
        return "video"
    return "segment" if data.segment_labels else "frame"
