"""The reader that a configuration asks for."""

from __future__ import annotations

from yt8m.config import DataConfig
from yt8m.readers.base import Reader
from yt8m.readers.frame_level import YT8MFrameFeatureReader
from yt8m.readers.video_level import YT8MAggregatedFeatureReader


def reader_for(data: DataConfig) -> Reader:
    """The reader for videos, or for frames and the segments in them."""
    common = (data.num_classes, data.feature_sizes, data.feature_names)
    if not data.frame_features:
        return YT8MAggregatedFeatureReader(*common, nan_policy=data.nan_policy)
    segments = (data.max_frames, data.segment_labels, data.segment_size)
    return YT8MFrameFeatureReader(*common, *segments, nan_policy=data.nan_policy)
