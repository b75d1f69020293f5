"""What a program reads where no data are named: the sample data, with one clear line that says so."""

from __future__ import annotations

import dataclasses

from absl import logging

from yt8m import storage
from yt8m.config import DataConfig


def instead(data: DataConfig, split: str) -> DataConfig:
    """`data` reading one split of the sample data, which are made at the first call."""
    from yt8m.tools import sample_data  # brings rich, for a bar that most runs never draw

    level = level_of(data)
    folder = sample_data.default_sample_data(level)
    logging.info("no data were named: this is SAMPLE DATA made by yt8m, in %s", folder)
    return dataclasses.replace(data, data_pattern=storage.join(folder, level, split, "*.tfrecord"))


def level_of(data: DataConfig) -> str:
    """The level of records that a config reads: video, frame or segment."""
    if not data.frame_features:
        return "video"
    return "segment" if data.segment_labels else "frame"
