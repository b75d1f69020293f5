"""A loss that is computed in one pass, or of the rated pairs alone, is the loss."""

from __future__ import annotations

from typing import Any

import cases
import numpy as np
import plain_graphs
import pytest

from yt8m import losses
from yt8m.lazy import tf
from yt8m.losses import base
from yt8m.video.scores import RatedPairScores

ROWS, CLASSES = 9, 600


QUICK = ["CrossEntropyLoss", "FocalLoss", "PairwiseHingeLoss", "TwoWayLoss"]


def drawn() -> dict[str, np.ndarray]:
    draw = np.random.default_rng(8)
    logits = draw.normal(-2, 3, (ROWS, CLASSES)).astype(np.float32)
    return {
        "logits": logits,
        "predictions": (1 / (1 + np.exp(-logits))).astype(np.float32),
        "labels": draw.random((ROWS, CLASSES)) < 0.02,
        "each": (draw.random((ROWS, CLASSES)) < 0.5).astype(np.float32),
        "rows": draw.random((ROWS, 1)).astype(np.float32),
    }


# Each takes two compilations: all weights and both types of labels, but not each with each.
@pytest.mark.parametrize(
    ("label_type", "weights"), cases.all_of([(tf.bool, "rows")], heavy=[(tf.float32, "each"), (tf.bool, None)])
)
@pytest.mark.parametrize("name", cases.only(losses.built_in_names(), QUICK))
def test_equals_the_loss_operation_by_operation(
    name: str, label_type: Any, weights: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss, given = losses.create(name), drawn()
    # Compiled and not, they are rounded alike only where both are rewritten.
    with tf.Graph().as_default(), tf.Session(config=plain_graphs.rewritten()) as session:
        logits, predictions = tf.constant(given["logits"]), tf.constant(given["predictions"])
        rest = (tf.cast(given["labels"], label_type), None if weights is None else tf.constant(given[weights]))

        def made() -> list[tf.Tensor]:
            from_logits = loss.calculate_loss_from_logits(logits, *rest), loss.gradient_from_logits(logits, *rest)
            return [loss.calculate_loss(predictions, *rest), *from_logits]

        found = made()
        kinds = {operation.type for operation in session.graph.get_operations()}
        monkeypatch.setattr(base, "fused", lambda function, *tensors: function(*tensors))
        expected = made()
        # The size of a tensor in it is the most labels of a row: each batch would be compiled anew.
        assert ("PartitionedCall" in kinds) is (name != "PairwiseHingeLoss")
        for one, other in zip(*session.run([found, expected]), strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-6, atol=1e-9)


@pytest.mark.heavy
def test_a_sum_of_millions_of_small_terms_is_not_lost() -> None:
    """Compiled as one sum of all pairs it would be off in the fourth digit."""
    logits = np.random.default_rng(2).normal(-7, 2, (1024, 3862)).astype(np.float32)
    labels = np.zeros(logits.shape, np.bool_)
    with tf.Graph().as_default(), tf.Session() as session:
        placed = [tf.placeholder(tf.float32, [None, 3862]), tf.placeholder(tf.bool, [None, 3862])]
        loss = losses.create("CrossEntropyLoss").calculate_loss_from_logits(*placed)
        found = session.run(loss, dict(zip(placed, (logits, labels), strict=True)))
    assert found == pytest.approx(np.logaddexp(0, logits.astype(np.float64)).sum(1).mean(), rel=1e-6)


class Own(losses.BaseLoss):
    """Asks Python, which cannot be compiled."""

    def rows(self, predictions: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        made = tf.py_func(lambda p, y: np.abs(p - y).sum(1), [predictions, labels], tf.float32)
        return tf.ensure_shape(made, [None])

    def rows_from_logits(self, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor | None) -> tf.Tensor:
        return self.rows(tf.sigmoid(logits), labels, weights)


def test_a_loss_of_ones_own_is_called_as_it_is() -> None:
    given = drawn()
    with tf.Graph().as_default(), tf.Session() as session:
        labels = tf.constant(given["labels"])
        of_predictions = Own().calculate_loss(tf.constant(given["predictions"]), labels)
        of_logits = Own().calculate_loss_from_logits(tf.constant(given["logits"]), labels)
        found = session.run([of_predictions, of_logits])
    expected = np.abs(given["predictions"] - given["labels"]).sum(1).mean()
    assert found == pytest.approx([expected, expected], rel=1e-5)


OF_PAIRS = (
    "CrossEntropyLoss",
    "WeightedCrossEntropyLoss",
    "FocalLoss",
    "AsymmetricLoss",
    "HingeLoss",
    "HillLoss",
    "SPLCLoss",
)


@pytest.mark.parametrize("name", OF_PAIRS)
def test_equals_the_loss_of_all(name: str) -> None:
    draw, loss = np.random.default_rng(4), losses.create(name)
    predictions = draw.random((6, 5)).astype(np.float32)
    labels = (draw.random((6, 5)) < 0.5).astype(np.float32)
    weights = (draw.random((6, 5)) < 0.4).astype(np.float32) * 2
    at = np.argwhere(weights > 0)
    rated = [values[weights > 0] for values in (predictions, labels, weights)]
    with tf.Graph().as_default(), tf.Session() as session:
        found, expected = session.run(
            [
                RatedPairScores(at, *rated, tf.constant([1] * 6)).loss(loss),
                loss.calculate_loss(tf.constant(predictions), tf.constant(labels), tf.constant(weights)),
            ]
        )
    assert found == pytest.approx(expected, rel=1e-6)


def test_a_loss_whose_terms_hang_together_is_not_taken_so() -> None:
    assert {name for name in losses.built_in_names() if losses.is_of_pairs(losses.create(name))} == set(OF_PAIRS)

    class Own(losses.get("CrossEntropyLoss")):
        pass

    assert not losses.is_of_pairs(Own())
