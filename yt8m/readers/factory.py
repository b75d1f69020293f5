"""The reader that a configuration asks for."""

from __future__ import annotations

from yt8m.config import DataConfig
from yt8m.errors import UsageError
from yt8m.readers.base import Reader
from yt8m.readers.frame_level import YT8MFrameFeatureReader
from yt8m.readers.video_level import YT8MAggregatedFeatureReader


def reader_for(data: DataConfig) -> Reader:
    """The reader for frames, segments or videos.

    Raises:
      UsageError: segment labels without frame features, or names and sizes that do not fit.
    """
    if data.segment_labels and not data.frame_features:
        raise UsageError("--segment_labels needs --frame_features: only frame records hold rated segments.")
    common = (data.num_classes, data.feature_sizes, data.feature_names)
    if not data.frame_features:
        return YT8MAggregatedFeatureReader(*common)
    return YT8MFrameFeatureReader(*common, data.max_frames, data.segment_labels, data.segment_size)
