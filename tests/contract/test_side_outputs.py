"""Models with further heads, through the modeler that applies the losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contract.model_cases import SIZES, B, C, T
from contract.model_session import quick_session, tiny

from yt8m import losses
from yt8m.lazy import tf
from yt8m.types import Batch
from yt8m.video.modeler import VideoModeler

RNG = np.random.default_rng(31)
LABELS = RNG.random((B, C)) < 0.4


WEIGHTS = RNG.random((B, C)) * (RNG.random((B, C)) < 0.6)
CHAIN = {"video_level_classifier_model": "DeepCombineChainModel", "deep_chain_layers": 2}


def batch(level: str, weights: np.ndarray | None = None) -> Batch:
    shape = (B, T) if level == "frame" else (B,)
    features = tuple(tf.constant(RNG.normal(size=(*shape, size)), tf.float32) for size in SIZES)
    frames = tf.fill([B], T if level == "frame" else 1)
    weights = None if weights is None else tf.constant(weights, tf.float32)
    return Batch(tf.fill([B], "id"), features, frames, tf.constant(LABELS), weights)


def cross_entropy(logits: np.ndarray, weights: np.ndarray | float = 1.0) -> float:
    return float((weights * (np.logaddexp(0, logits) - logits * LABELS)).sum(1).mean())


def softmax_cross_entropy(logits: np.ndarray, target: np.ndarray) -> float:
    return float(-(target * (logits - np.log(np.exp(logits).sum(1, keepdims=True)))).sum(1).mean())


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("name", "given", "sides", "weights"),
    [
        ("DeepCombineChainModel", {}, 2, None),
        ("MixNeXtVladModel", {}, 4, WEIGHTS),
        ("MixNeXtVladModel", CHAIN, 8, None),
        ("LstmAttentionMaxModel", CHAIN, 2, WEIGHTS),
        ("DbofModel", {**CHAIN, "dbof_pooling_method": "none"}, 2, None),
    ],
)
def test_loss_is_the_sum_of_the_heads(name: str, given: dict[str, Any], sides: int, weights: np.ndarray | None) -> None:
    """Of every head: of the classifier's too, where the model reduces several of its outputs to one.

    Label weights touch what is compared with labels, not what is compared with another head.
    """
    model: Any = tiny(name, given)
    object.__setattr__(model, "input_transform", "raw")  # the eigenvalues are those of 1024 features
    modeler = VideoModeler(model, losses.create("CrossEntropyLoss"), C, feature_sizes=SIZES)
    with quick_session() as session:
        output = modeler.build(batch(model.level, weights), is_training=True)
        heads = [(side.logits, () if side.target is None else side.target) for side in output.side_outputs]
        session.run(tf.global_variables_initializer())
        loss, logits, values = session.run([output.loss, output.logits, heads])
    w = 1.0 if weights is None else weights
    expected = cross_entropy(logits, w)
    for side, (z, target) in zip(output.side_outputs, values, strict=True):
        distilled = side.loss == "SoftmaxLoss"
        expected += side.weight * (softmax_cross_entropy(z, target) if distilled else cross_entropy(z, w))
    assert len(values) == sides == len({side.name for side in output.side_outputs})
    assert loss == pytest.approx(expected, rel=1e-5)
