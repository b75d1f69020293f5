"""From files of records to batches."""

from yt8m.readers.arrays import dequantize, join_features, resize_axis
from yt8m.readers.base import Reader
from yt8m.readers.batch_queue import BatchQueue
from yt8m.readers.every_segment import EverySegmentReader
from yt8m.readers.factory import reader_for
from yt8m.readers.finite import ZeroedCount
from yt8m.readers.frame_level import YT8MFrameFeatureReader
from yt8m.readers.video_level import YT8MAggregatedFeatureReader

__all__ = [
    "BatchQueue",
    "EverySegmentReader",
    "Reader",
    "YT8MAggregatedFeatureReader",
    "YT8MFrameFeatureReader",
    "ZeroedCount",
    "dequantize",
    "join_features",
    "reader_for",
    "resize_axis",
]
