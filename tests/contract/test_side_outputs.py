"""Models with further heads, through the modeler that applies the losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contract.model_cases import SIZES, B, C, T
from contract.model_session import quick_session, tiny

from yt8m import losses
from yt8m.graph.modeler import VideoModeler
from yt8m.lazy import tf
from yt8m.types import Batch

RNG = np.random.default_rng(31)
LABELS = RNG.random((B, C)) < 0.4


def batch(level: str) -> Batch:
    shape = (B, T) if level == "frame" else (B,)
    features = tuple(tf.constant(RNG.normal(size=(*shape, size)), tf.float32) for size in SIZES)
    frames = tf.fill([B], T if level == "frame" else 1)
    return Batch(tf.fill([B], "id"), features, frames, tf.constant(LABELS))


def cross_entropy(logits: np.ndarray) -> float:
    return float((np.logaddexp(0, logits) - logits * LABELS).sum(1).mean())


def softmax_cross_entropy(logits: np.ndarray, target: np.ndarray) -> float:
    return float(-(target * (logits - np.log(np.exp(logits).sum(1, keepdims=True)))).sum(1).mean())


@pytest.mark.parametrize(("name", "sides"), [("DeepCombineChainModel", 2), ("MixNeXtVladModel", 4)])
def test_loss_is_the_sum_of_the_heads(name: str, sides: int) -> None:
    model: Any = tiny(name)
    object.__setattr__(model, "input_transform", "raw")  # the eigenvalues are those of 1024 features
    modeler = VideoModeler(model, losses.create("CrossEntropyLoss"), C, feature_sizes=SIZES)
    with quick_session() as session:
        output = modeler.build(batch(model.level), is_training=True)
        heads = [(side.logits, () if side.target is None else side.target) for side in output.side_outputs]
        session.run(tf.global_variables_initializer())
        loss, logits, values = session.run([output.loss, output.logits, heads])
    expected = cross_entropy(logits)
    for side, (z, target) in zip(output.side_outputs, values, strict=True):
        distilled = side.loss == "SoftmaxLoss"
        expected += side.weight * (softmax_cross_entropy(z, target) if distilled else cross_entropy(z))
    assert len(values) == sides
    assert loss == pytest.approx(expected, rel=1e-5)
