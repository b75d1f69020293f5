"""Reads video-level records: one vector per feature and video."""

from __future__ import annotations

from collections.abc import Sequence

from yt8m.lazy import tf
from yt8m.readers.base import Reader, dense_labels, fixed_size, join_features, only_finite, parse_ids, valid_utf8
from yt8m.types import Batch


class YT8MAggregatedFeatureReader(Reader):
    """Reads tf.train.Example records with float lists.

    Fields: `id` or `video_id` (bytes), `labels` (int64 list, may be missing), and one float list of
    `feature_sizes[i]` values for each of `feature_names`.
    """

    def __init__(
        self,
        num_classes: int = 3862,
        feature_sizes: Sequence[int] = (1024, 128),
        feature_names: Sequence[str] = ("mean_rgb", "mean_audio"),
        nan_policy: str = "refuse",
    ) -> None:
        super().__init__(num_classes, feature_sizes, feature_names, nan_policy)

    def prepare_serialized_examples(self, serialized: tf.Tensor) -> Batch:
        """Parses a vector of records in bulk.

        Args:
          serialized: string [B].

        Returns:
          A `Batch` with float32 [B, size] features, bool [B, C] labels and num_frames 1. Running the batch raises
          InvalidArgumentError, with the video's id, on a feature that is missing or of another size or
          type, on NaN and infinity (unless they become 0), and on a label outside of 0..C-1.
        """
        ids = parse_ids(serialized)
        floats = {name: tf.io.RaggedFeature(tf.float32, row_splits_dtype=tf.int64) for name in self.feature_names}
        labels = {"labels": tf.io.RaggedFeature(tf.int64, row_splits_dtype=tf.int64)}
        parsed = tf.io.parse_example(serialized, {**floats, **labels}, example_names=valid_utf8(ids))

        def feature(name: str, size: int) -> tf.Tensor:
            values = fixed_size(parsed[name], name, size, ids)
            return only_finite(values, name, lambda row: ids[row], self.nan_policy, self.zeroed)

        return Batch(
            video_ids=ids,
            features=tuple(map(feature, self.feature_names, self.feature_sizes)),
            num_frames=tf.ones_like(ids, tf.int32),
            labels=dense_labels(parsed["labels"], ids, self.num_classes),
        )

    def video_matrix(self, batch: Batch) -> tf.Tensor:
        """float32 [B, D]: the features side by side, not normalised."""
        return join_features(batch)
