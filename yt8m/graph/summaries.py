"""The summaries of a training step, computed from the tensors of that step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from yt8m.lazy import tf


def train_summaries(gradients: Sequence[tuple[Any, Any]], scalars: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """One merged summary: scalars, and histograms of each gradient and its weights.

    Nothing goes into the SUMMARIES collection: what is not fetched with the step must not run. The tags
    are the names given, where `tf.summary` would add a number to one that some op has already.
    """
    merged = [tf.raw_ops.ScalarSummary(tags=name, values=value) for name, value in scalars.items()]
    for gradient, variable in gradients:
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        merged.append(tf.raw_ops.HistogramSummary(tag=f"{variable.op.name}/gradient", values=values))
        merged.append(tf.raw_ops.HistogramSummary(tag=variable.op.name, values=variable.read_value()))
    return tf.summary.merge(merged, collections=[])
