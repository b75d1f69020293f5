"""The network with its losses, as the engine asks for it, and the accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from examples.cifar10.network import Network, network
from examples.cifar10.records import Images
from yt8m.graph import Modeler, PredictOps, Report
from yt8m.lazy import tf
from yt8m.types import ModelOutput


class TowerLoss(NamedTuple):
    """The losses of one tower, scalars; total = cross_entropy + decay."""

    cross_entropy: tf.Tensor
    decay: tf.Tensor
    total: tf.Tensor


def tower_loss(outputs: Network, labels: tf.Tensor) -> TowerLoss:
    """Cross-entropy, mean over the tower's examples, plus weight decay.

    Each loss goes to tf.GraphKeys.LOSSES: `deploy` minimises their sum on each tower, and the
    engine writes a summary of each.
    """
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs.logits)
    cross_entropy = tf.reduce_mean(each, name="cross_entropy")
    for loss in (cross_entropy, *outputs.decays):
        tf.add_to_collection(tf.GraphKeys.LOSSES, loss)
    decay = tf.add_n(outputs.decays, name="decay")
    return TowerLoss(cross_entropy, decay, tf.add(cross_entropy, decay, name="tower_loss"))


class CifarModeler(Modeler):
    """Softmax over ten classes."""

    def build(self, batch: Images, is_training: bool) -> ModelOutput:
        """The network and its losses on one tower's share."""
        outputs = network(batch.images)
        loss = tower_loss(outputs, batch.labels)
        return ModelOutput(
            predictions=tf.nn.softmax(outputs.logits), regularization_loss=loss.decay, loss=loss.cross_entropy
        )

    def reports(self, batch: Images, output: ModelOutput, mode: str) -> dict[str, Report]:
        """Which examples were right; in inference the probabilities instead."""
        if mode == "infer":
            return {"probabilities": Report(output.predictions)}
        best = tf.argmax(output.predictions, axis=1, output_type=tf.int32)
        return {"correct": Report(tf.equal(best, batch.labels))}

    def predict(self, batch: Images) -> PredictOps:
        """Probabilities of a batch; other pictures, distorted or cropped, can be fed as `input_batch`."""
        images = tf.identity(batch.images, name="input_batch")
        predictions = tf.nn.softmax(network(images).logits)
        return PredictOps(predictions=predictions, input_batch=images, labels=batch.labels)

    def evaluator(self) -> Accuracy:
        """The share of examples whose most probable class is theirs."""
        return Accuracy()


class Accuracy:
    """Counts right examples over steps."""

    def __init__(self) -> None:
        self.clear()

    def accumulate(self, reports: Mapping[str, np.ndarray], loss: float | None) -> dict[str, float]:
        """Adds one step; returns its accuracy alone."""
        correct = reports["correct"]
        self._correct += int(correct.sum())
        self._examples += len(correct)
        return {"accuracy": float(correct.mean())}

    def get(self) -> dict[str, Any]:
        """`accuracy` of all steps; 0 without an example."""
        return {"accuracy": self._correct / max(self._examples, 1)}

    def clear(self) -> None:
        """Forgets all steps."""
        self._correct, self._examples = 0, 0
