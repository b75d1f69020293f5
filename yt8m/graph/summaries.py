"""The summaries of a training step, computed from the tensors of that step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from yt8m.lazy import tf


def train_summaries(
    gradients: Sequence[tuple[Any, Any]], scalars: Mapping[str, tf.Tensor], weights: Sequence[Any]
) -> tf.Tensor:
    """One merged summary: scalars, and histograms of each gradient and each weight.

    Nothing goes into the SUMMARIES collection: what is not fetched with the step must not run.
    """
    merged = [tf.summary.scalar(name, value, collections=[]) for name, value in scalars.items()]
    for gradient, variable in gradients:
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        merged.append(tf.summary.histogram(f"{variable.op.name}/gradient", values, collections=[]))
    for variable in weights:
        merged.append(tf.summary.histogram(variable.op.name, variable.read_value(), collections=[]))
    return tf.summary.merge(merged, collections=[])
