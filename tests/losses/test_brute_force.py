"""Every loss beyond the golden ones, pair by pair in NumPy, on probabilities and from logits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from yt8m import losses
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.records import vocabulary

RNG = np.random.default_rng(23)
B, C = 7, 5
LOGITS = RNG.normal(scale=2.0, size=(B, C))
LABELS = (RNG.random((B, C)) < 0.4).astype(float)
LABELS[0], LABELS[1] = 0, 1
WEIGHTS = RNG.random((B, C)) * (RNG.random((B, C)) < 0.7)
P = 1 / (1 + np.exp(-LOGITS))


def both_forms(name: str, fields: dict[str, Any], weights: np.ndarray | None, y: np.ndarray = LABELS) -> list[float]:
    with tf.Graph().as_default(), tf.Session() as session:
        loss, labels = losses.create(name, fields), tf.constant(y > 0)
        w = None if weights is None else tf.constant(weights)
        return session.run(
            [
                loss.calculate_loss(tf.constant(P, tf.float32), labels, w),
                loss.calculate_loss_from_logits(tf.constant(LOGITS, tf.float32), labels, w),
            ]
        )


def cross_entropy(p: float, y: float, eps: float) -> float:
    return -y * np.log(p + eps) - (1 - y) * np.log(1 - p + eps)


def smoothed(b: int, c: int, eps: float, w: np.ndarray) -> float:
    return w[b, c] * cross_entropy(P[b, c], 0.7 * LABELS[b, c] + 0.3 * LABELS[b].sum() / C, eps)


def focal(b: int, c: int, eps: float, w: np.ndarray) -> float:
    right = P[b, c] if LABELS[b, c] else 1 - P[b, c]
    return -w[b, c] * (1 - right) ** 3 * np.log(right + eps)


def positive(b: int, c: int, eps: float, w: np.ndarray) -> float:
    return w[b, c] * (4 if LABELS[b, c] else 1) * cross_entropy(P[b, c], LABELS[b, c], eps)


def agreement(b: int, c: int, eps: float, w: np.ndarray) -> float:
    counted = [(i, j) for i in range(B) for j in range(C) if w[i, j] > 0]
    highest = max(P[i, j] for i, j in counted if not LABELS[i, j])
    lowest = min(P[i, j] for i, j in counted if LABELS[i, j])
    wrong = P[b, c] < highest if LABELS[b, c] else P[b, c] > lowest
    return w[b, c] * (1.5 if wrong else 1.0) * cross_entropy(P[b, c], LABELS[b, c], eps)


def pairwise(b: int, c: int, eps: float, w: np.ndarray) -> float:
    """The pairs of which c is the label."""
    others = [o for o in range(C) if not LABELS[b, o]]
    if not LABELS[b, c] or not others:
        return 0.0
    pairs = LABELS[b].sum() * len(others)
    return sum(w[b, c] * w[b, o] * max(0, 0.3 - P[b, c] + P[b, o]) for o in others) / pairs


def asymmetric(b: int, c: int, eps: float, w: np.ndarray) -> float:
    p, above = P[b, c], max(P[b, c] - 0.2, 0.0)
    if LABELS[b, c]:
        return -w[b, c] * (1 - p) ** 1.5 * np.log(p + eps)
    return -w[b, c] * above**3 * np.log(1 - above + eps)


COUNTS = (700, 200, 0, 50, 49)


def adjusted(b: int, c: int, eps: float, w: np.ndarray) -> float:
    count = max(COUNTS[c], 1)
    frequency = count / 1000
    p = 1 / (1 + np.exp(-LOGITS[b, c] - 0.8 * np.log(frequency / (1 - frequency))))
    return w[b, c] * cross_entropy(p, LABELS[b, c], eps)


ASYMMETRIC = {"asymmetric_positive_gamma": 1.5, "asymmetric_negative_gamma": 3.0, "asymmetric_margin": 0.2}

CASES = {
    "AsymmetricLoss": (ASYMMETRIC, asymmetric),
    "LogitAdjustmentLoss": ({"adjustment_strength": 0.8, "class_counts": COUNTS}, adjusted),
    "LabelSmoothingLoss": ({"label_smoothing": 0.3}, smoothed),
    "FocalLoss": ({"focal_gamma": 3.0}, focal),
    "WeightedCrossEntropyLoss": ({"positive_weight": 4.0}, positive),
    "BatchAgreementLoss": ({"agreement_weight": 0.5}, agreement),
    "PairwiseHingeLoss": ({"pairwise_margin": 0.3}, pairwise),
}


@pytest.mark.parametrize("with_weights", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_loss(name: str, with_weights: bool) -> None:
    fields, term = CASES[name]
    weights = WEIGHTS if with_weights else None
    w = np.ones((B, C)) if weights is None else weights
    # 1e-5 stands inside the logarithms of the probability form alone.
    expected = [sum(term(b, c, eps, w) for b in range(B) for c in range(C)) / B for eps in (1e-5, 0.0)]
    np.testing.assert_allclose(both_forms(name, fields, weights), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("AsymmetricLoss", {**ASYMMETRIC, "asymmetric_margin": 0.0}),
        ("AsymmetricLoss", {**ASYMMETRIC, "asymmetric_negative_gamma": 0.0}),
        (
            "AsymmetricLoss",
            {"asymmetric_positive_gamma": 0.0, "asymmetric_negative_gamma": 0.0, "asymmetric_margin": 0.0},
        ),
        ("LogitAdjustmentLoss", {"adjustment_strength": 0.8, "class_counts": COUNTS}),
    ],
)
def test_gradient_in_closed_form(name: str, fields: dict[str, Any]) -> None:
    """It is the slope of the loss, also where a prediction is 0 or 1 in float32."""
    with tf.Graph().as_default(), tf.Session() as session:
        loss, logits = losses.create(name, fields), tf.constant(LOGITS, tf.float32)
        value = loss.calculate_loss_from_logits(logits, LABELS > 0)
        by_hand = loss.gradient_from_logits(logits, LABELS > 0)
        far = tf.constant([[200.0, -200.0, 30.0, -30.0, 0.0]])
        ends = [loss.gradient_from_logits(far, np.array([[label] * 5])) for label in (True, False)]
        costs = [loss.calculate_loss_from_logits(far, np.array([[label] * 5])) for label in (True, False)]
        slope, found, *far_away = session.run([tf.gradients(value, logits)[0], by_hand, ends, costs])
    np.testing.assert_allclose(found, slope, rtol=1e-4, atol=1e-7)
    assert all(np.isfinite(one).all() for one in far_away)


SHIFTED: dict[str, tuple[dict[str, Any], np.ndarray]] = {
    "LogitAdjustmentLoss": (
        {"adjustment_strength": 2.0, "class_counts": (0, 3, 1000, 10**6, 10**7)},
        2.0 * np.log(np.array([1, 3, 1000, 10**6, 10**7]) / (11_001_004 - np.array([1, 3, 1000, 10**6, 10**7]))),
    ),
    "HillLoss": ({"hill_margin": 18.0, "hill_gamma": 0.0}, np.full(5, -18.0)),
    "SPLCLoss": ({"splc_margin": 18.0, "splc_gamma": 0.0}, np.full(5, -18.0)),
}


@pytest.mark.parametrize("name", SHIFTED)
def test_shifted_predictions_hold_near_1(name: str) -> None:
    """For labels, the loss is -log(sigmoid(z + shift) + 1e-5), in float64 from the very float32 predictions."""
    fields, shifts = SHIFTED[name]
    predictions = np.repeat(np.array([[1], [1 - 2.0**-24], [0.9999], [0.9]], np.float32), 5, axis=1)
    exact, weights = predictions.astype(float), np.exp(shifts)
    expected = -np.log(exact * weights / (exact * weights + (1 - exact)) + 1e-5)
    with tf.Graph().as_default(), tf.Session() as session:
        given = tf.constant(predictions)
        loss = losses.create(name, fields).calculate_loss(given, np.ones((4, 5), bool))
        found, slopes = session.run([loss, tf.gradients(loss, given)[0]])
    np.testing.assert_allclose(found, expected.sum(1).mean(), rtol=1e-5)
    assert np.isfinite(slopes).all()


def test_asymmetric_loss_without_powers_and_margin_is_cross_entropy() -> None:
    none = {"asymmetric_positive_gamma": 0.0, "asymmetric_negative_gamma": 0.0, "asymmetric_margin": 0.0}
    found = both_forms("AsymmetricLoss", none, WEIGHTS)
    np.testing.assert_allclose(found, both_forms("CrossEntropyLoss", {}, WEIGHTS), rtol=1e-5)


def test_counts_are_those_of_the_classes() -> None:
    with pytest.raises(UsageError, match=r"class_counts .*\b2\b.*\b5 classes"):
        both_forms("LogitAdjustmentLoss", {"class_counts": (3, 4)}, None)
    for counts in ((3, 4, -1, 0, 2), (0, 0, 0, 0, 0)):
        with pytest.raises(UsageError, match=r"class_counts .*below 0\b"):
            both_forms("LogitAdjustmentLoss", {"class_counts": counts}, None)


@pytest.mark.parametrize("weights", [None, WEIGHTS[:2]], ids=["unweighted", "weighted"])
def test_cross_entropy_of_labels_that_are_true_or_false_holds_for_every_logit(weights: np.ndarray | None) -> None:
    """-log sigmoid(z) for a label and -log sigmoid(-z) otherwise, in float64; so it is of labels 0 and 1."""
    logits = np.array([[0.0, 1e-4, -12.0, 17.0, 200.0], [-200.0, -17.0, 12.0, -1e-4, 3.0]], np.float32)
    labels = np.array([[1, 0, 1, 0, 1], [1, 0, 0, 1, 1]], bool)
    w = np.ones(logits.shape) if weights is None else weights
    terms = np.logaddexp(0.0, np.where(labels, -1.0, 1.0) * logits.astype(float)) * w
    loss = losses.create("CrossEntropyLoss")
    with tf.Graph().as_default(), tf.Session() as session:
        made = [
            loss.calculate_loss_from_logits(tf.constant(logits), given, label_weights=weights)
            for given in (labels, labels.astype(np.float32))
        ]
        found = session.run(made)
    np.testing.assert_allclose(found, [terms.sum(1).mean()] * 2, rtol=1e-6)


PUBLISHED = tuple(c for c in range(C) if c in vocabulary.segment_classes())
VIDEO = RNG.random((B, C)) < 0.5
VIDEO[4], VIDEO[5] = True, False


@pytest.mark.parametrize("of_video", [None, VIDEO], ids=["segments", "videos"])
@pytest.mark.parametrize("classes", [(), (0, 3, 4)])
def test_segment_fine_tuning(classes: tuple[int, ...], of_video: np.ndarray | None) -> None:
    """What a video is labelled with and was not rated for its segment costs nothing."""
    rated = (WEIGHTS > 0).astype(float)
    rated[2], rated[3] = 0, 1
    known_absent = np.ones((B, C), bool) if of_video is None else ~of_video
    expected = []
    for eps in (1e-5, 0.0):
        rows = []
        for b in range(B):
            unrated = [c for c in classes or PUBLISHED if not rated[b, c] and known_absent[b, c]]
            cost = sum(cross_entropy(P[b, c], LABELS[b, c], eps) for c in range(C) if rated[b, c])
            # A rating is a label or its absence; what was not rated bears no label.
            rows.append(cost + 0.5 * np.mean([cross_entropy(P[b, c], 0, eps) for c in unrated] or [0]))
        expected.append(np.mean(rows))
    fields = {"unrated_weight": 0.5, "segment_classes": classes}
    with tf.Graph().as_default(), tf.Session() as session:
        video = None if of_video is None else tf.constant(of_video)
        loss = losses.create("SegmentFineTuningLoss", fields)
        weights = session.run(loss.weights_of(tf.constant(rated), video))
    got = both_forms("SegmentFineTuningLoss", fields, weights, LABELS * rated)
    np.testing.assert_allclose(got, expected, rtol=1e-5)
