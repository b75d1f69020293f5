"""A workload that learns next to nothing but tells which examples it saw, from shards in our own format."""

from __future__ import annotations

from typing import Any

from yt8m.graph import Modeler, Report
from yt8m.lazy import tf
from yt8m.readers import YT8MAggregatedFeatureReader
from yt8m.types import ModelOutput

READER = YT8MAggregatedFeatureReader(5, (1,), ("mean_rgb",))


class Ids(Modeler):
    """One weight; reports which examples it sees."""

    def build(self, batch: Any, is_training: bool) -> ModelOutput:
        weight = tf.get_variable("weight", [], initializer=tf.ones_initializer())
        predictions = tf.cast(batch.labels, tf.float32) * weight
        return ModelOutput(predictions=predictions, loss=tf.reduce_mean(predictions))

    def reports(self, batch: Any, output: ModelOutput, mode: str) -> dict[str, Report]:
        return {"ids": Report(batch.video_ids)}
