"""Readers turn files of records into batches."""

from yt8m.readers.base import Reader, ZeroedCount, dequantize, join_features, join_film_means, resize_axis
from yt8m.readers.batch_queue import BatchQueue
from yt8m.readers.listed_labels import multi_hot
from yt8m.readers.youtube8m import (
    EverySegmentReader,
    YT8MAggregatedFeatureReader,
    YT8MFrameFeatureReader,
    own_reader_class,
    reader_for,
)

__all__ = ["BatchQueue", "EverySegmentReader", "Reader", "YT8MAggregatedFeatureReader", "YT8MFrameFeatureReader"]
__all__ += ["ZeroedCount"]
__all__ += ["dequantize", "join_features", "join_film_means", "multi_hot", "own_reader_class", "reader_for"]
__all__ += ["resize_axis"]
