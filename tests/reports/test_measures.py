"""Curves and tables of the report against scikit-learn and plain loops."""

from __future__ import annotations

import collections
import itertools

import numpy as np
import pytest
from evaluated_videos import by_metrics, drawn, kept_videos
from sklearn import metrics

from yt8m.eval_util.videos import hashes
from yt8m.records import vocabulary
from yt8m.reports import measures
from yt8m.reports.measures import ClassFigure, Confusion

SCORES, LABELS = drawn(11, videos=120, classes=9, coarse=True)
EVERY = kept_videos(SCORES, LABELS, 9)


def test_precision_and_recall_are_those_of_scikit_learn():
    precision, recall, thresholds = metrics.precision_recall_curve(LABELS.ravel(), SCORES.ravel())
    found = measures.precision_recall(EVERY)
    np.testing.assert_allclose(found.precision, precision[:-1][::-1])
    np.testing.assert_allclose(found.recall, recall[:-1][::-1])
    np.testing.assert_allclose(found.thresholds, thresholds[::-1])


def test_recall_counts_labels_that_no_column_shows():
    few = measures.precision_recall(kept_videos(SCORES, LABELS, 2))
    best = np.argsort(-SCORES, axis=1, kind="stable")[:, :2]
    assert few.recall[-1] == pytest.approx(np.take_along_axis(LABELS, best, 1).sum() / LABELS.sum())


def test_a_thinned_curve_keeps_its_ends_and_its_shape():
    whole = measures.precision_recall(kept_videos(*drawn(4, videos=300, classes=20), 20))
    thin = measures.thinned(whole, points=50)
    assert len(thin.recall) <= 51
    assert (thin.recall[0], thin.recall[-1]) == (whole.recall[0], whole.recall[-1])
    assert set(zip(*thin, strict=True)) <= set(zip(*whole, strict=True))


def loops(top_k: int) -> list[Confusion]:
    """What is taken for what, video by video."""
    pairs: dict[tuple[int, int], list[int]] = collections.defaultdict(list)
    in_order = np.argsort(hashes([b"v%d" % number for number in range(len(SCORES))]))
    for row, (scores, labels) in enumerate(zip(SCORES[in_order], LABELS[in_order], strict=True)):
        order = np.argsort(-scores, kind="stable")[:top_k][: labels.sum()].tolist()
        wrong = [one for one in order if not labels[one]]
        missed = [one for one in np.flatnonzero(labels).tolist() if one not in order]
        for pair in itertools.product(missed, wrong):
            pairs[pair].append(row)
    ranked = sorted(pairs.items(), key=lambda item: (-len(item[1]), item[0]))
    return [Confusion(a, b, len(rows), len(rows) / LABELS[:, a].sum(), tuple(rows[:3])) for (a, b), rows in ranked]


@pytest.mark.parametrize("top_k", [2, 9])
def test_confusions_are_those_of_a_loop(top_k):
    assert measures.confusions(kept_videos(SCORES, LABELS, top_k), 9, 12) == loops(top_k)[:12]


def test_with_one_label_a_video_confusions_are_the_confusion_matrix():
    truth = np.random.default_rng(0).integers(9, size=120)
    matrix = metrics.confusion_matrix(truth, SCORES.argmax(1), labels=range(9))
    np.fill_diagonal(matrix, 0)
    found = measures.confusions(kept_videos(SCORES, truth[:, None] == np.arange(9), 3), 9, 100)
    assert {(one.missed, one.predicted): one.videos for one in found} == {
        (a, b): matrix[a, b] for a, b in zip(*np.nonzero(matrix), strict=True)
    }


def figures(numbers: list[int], aps: list[float], positives: list[int]) -> list[ClassFigure]:
    rows = [
        {"class": number, "average_precision": ap, "positives": count}
        for number, ap, count in zip(numbers, aps, positives, strict=True)
    ]
    return measures.class_figures({"classes": rows}, vocabulary.load())


def test_verticals_are_means_over_their_classes():
    scores, labels = drawn(11, videos=120, classes=9)
    found = by_metrics(scores, labels, 9)
    rows = figures(*(found[name].tolist() for name in ("aps_class", "aps", "aps_positives")))
    names = np.array(vocabulary.load().verticals[:9])
    aps = metrics.average_precision_score(labels, scores, average=None)
    told = measures.verticals(rows)
    assert {one.name for one in told} == set(names)
    for one in told:
        assert one.classes == (names == one.name).sum()
        assert one.positives == labels[:, names == one.name].sum()
        assert one.mean_ap == pytest.approx(aps[names == one.name].mean())
    assert [one.positives for one in told] == sorted((one.positives for one in told), reverse=True)


def test_best_and_worst_leave_out_rare_classes_where_enough_remain():
    rows = figures(list(range(9)), [0.1 * n for n in range(9)], [1, 50, 50, 50, 50, 2, 50, 50, 3])
    best, worst, least = measures.best_and_worst(rows, 3)
    assert ([one.number for one in best], [one.number for one in worst]) == ([7, 6, 4], [1, 2, 3])
    assert least == measures.ENOUGH_LABELS
    best, worst, least = measures.best_and_worst(rows, 4)
    assert ([one.number for one in best], [one.number for one in worst], least) == ([8, 7, 6, 5], [0, 1, 2, 3], 1)
    assert [one.name for one in measures.best_and_worst(rows[:1], 4)[0]] == ["Game"]


def test_a_class_without_an_error_is_never_among_the_worst():
    rows = figures([0, 1, 2, 3], [1.0, 1.0, 0.9996, 0.999], [9] * 4)
    assert [one.number for one in measures.best_and_worst(rows, 1)[1]] == [3]
    assert measures.best_and_worst(rows[:3], 2)[1] == []


def test_a_class_past_the_vocabulary_has_a_name():
    (one,) = figures([5000], [0.5], [2])
    assert (one.name, one.vertical) == ("class 5000", "")
    assert measures.verticals([one]) == []
