"""All segments of frame-level records, rated or not: what segment inference ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from yt8m.lazy import tf
from yt8m.readers.base import at_least_one
from yt8m.readers.frame_level import YT8MFrameFeatureReader
from yt8m.readers.frames import Frames
from yt8m.types import Batch


class EverySegmentReader(YT8MFrameFeatureReader):
    """Reads each video as its segments, from second 0 on, each `seconds` after the one before.

    The last segment keeps the frames that are there, as published. `video_ids` of a batch are
    `video:start`; the segments of a video follow one another. A video without frames has none.

    Attributes:
      seconds: from one start to the next.
      context: frames before and behind a segment that the model sees too, as far as the video goes.
    """

    def __init__(
        self,
        num_classes: int = 3862,
        feature_sizes: Sequence[int] = (1024, 128),
        feature_names: Sequence[str] = ("rgb", "audio"),
        max_frames: int = 300,
        segment_size: int = 5,
        context: int = 0,
        nan_policy: str = "refuse",
    ) -> None:
        self.seconds, self.context = at_least_one("segment_size", segment_size), context
        window = segment_size + 2 * context
        super().__init__(num_classes, feature_sizes, feature_names, max_frames, True, window, nan_policy)

    @property
    def keeps_few_frames(self) -> bool:
        """Every frame is in a segment."""
        return False

    def _context_features(self) -> dict[str, Any]:
        return {}

    def _segments(
        self, context: Mapping[str, Any], parts: list[Frames], lengths: tf.Tensor, ids: tf.Tensor
    ) -> Batch:
        usable = tf.minimum(lengths, self.max_frames)
        counts = -(-usable // self.seconds)
        rows = tf.repeat(tf.range(tf.size(ids, out_type=tf.int64)), counts)
        place = tf.range(tf.size(rows, out_type=tf.int64)) - tf.gather(
            tf.cumsum(counts, exclusive=True), rows
        )
        starts = place * self.seconds
        first = tf.maximum(starts - self.context, 0)
        end = tf.minimum(starts + self.seconds + self.context, tf.gather(usable, rows))
        seconds = first[:, tf.newaxis] + tf.range(self.segment_size, dtype=tf.int64)
        valid = seconds < end[:, tf.newaxis]
        at = tf.gather(tf.cumsum(lengths, exclusive=True), rows)[:, tf.newaxis] + seconds
        return Batch(
            video_ids=tf.strings.join([tf.gather(ids, rows), tf.as_string(starts)], ":"),
            features=tuple(part.gathered(at, valid, self.segment_size) for part in parts),
            num_frames=tf.cast(end - first, tf.int32),
            labels=tf.zeros([tf.size(rows), self.num_classes], tf.bool),
        )
