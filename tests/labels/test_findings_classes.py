"""Findings on classes, against loops over all pairs of planted labels and scores."""

from __future__ import annotations

import itertools
import pathlib

import numpy as np
from labels.kept_scores import kept

from yt8m.labels import findings
from yt8m.labels.findings import APART, CONFUSED, FEW, TOGETHER, ClassFinding, find_odd_classes, write_odd_classes
from yt8m.labels.folds import AuditedVideos
from yt8m.records import vocabulary

VIDEOS, CLASSES = 1000, 8
NAMES = vocabulary.of_names([f"class {letter}" for letter in "abcdefgh"])


def planted() -> tuple[np.ndarray, np.ndarray]:
    """Labels and scores: a and b come together, c and d once; e and f are confused; h is rare."""
    rng = np.random.default_rng(0)
    labels = rng.random((VIDEOS, CLASSES)) < 0.25
    labels[:, 1] = labels[:, 0]
    labels[labels[:, 2], 3] = False
    labels[np.flatnonzero(labels[:, 2])[0], 3] = True
    labels[:, 7] = np.arange(VIDEOS) < 12
    scores = rng.normal(size=labels.shape) + 6 * labels
    scores[:, 4:6] = 6 * (labels[:, 4] | labels[:, 5])[:, np.newaxis] + rng.normal(size=(VIDEOS, 2))
    return labels, scores.astype(np.float32)


def splits() -> AuditedVideos:
    number = (np.arange(VIDEOS) % 4 == 0).astype(np.int32)
    return AuditedVideos([f"v{place}" for place in range(VIDEOS)], number, ["train", "test"], number)


def test_pairs_are_those_of_a_loop_over_all_classes() -> None:
    labels, scores = planted()
    findings = find_odd_classes(kept(scores, labels), splits(), NAMES)
    totals = labels.sum(0)
    expected: dict[str, set[tuple[str, str]]] = {TOGETHER: set(), APART: set(), CONFUSED: set()}
    for first, second in itertools.combinations(range(CLASSES), 2):
        both, names = (labels[:, first] & labels[:, second]).sum(), (NAMES.names[first], NAMES.names[second])
        if both >= 0.98 * max(totals[first], totals[second]):
            expected[TOGETHER].add(names)
        if 0 < both <= 0.05 * totals[first] * totals[second] / VIDEOS:
            expected[APART].add(names)
        shares = [
            (scores[only, other] > scores[only, own]).sum() / totals[own]
            for own, other in ((first, second), (second, first))
            for only in [labels[:, own] & ~labels[:, other]]
        ]
        if min(shares) >= 0.3:
            expected[CONFUSED].add(names)
    for kind, pairs in expected.items():
        assert {(each.label, each.other) for each in findings if each.finding == kind} == pairs
    assert expected == {
        TOGETHER: {("class a", "class b")},
        APART: {("class c", "class d")},
        CONFUSED: {("class e", "class f")},
    }


def test_a_split_with_too_few_videos_of_a_class_is_named() -> None:
    labels, scores = planted()
    findings = find_odd_classes(kept(scores, labels), splits(), NAMES)
    few = [(each.label, each.split, each.videos) for each in findings if each.finding == FEW]
    assert few == [("class h", "train", 9), ("class h", "test", 3)]


def test_the_table_has_a_row_for_each_finding(tmp_path: pathlib.Path) -> None:
    write_odd_classes(str(tmp_path / "classes.csv"), [ClassFinding(FEW, "=h", "", "test", 3, np.nan)])
    assert (tmp_path / "classes.csv").read_text().splitlines() == [
        ",".join(findings.CLASS_HEADER),
        "too few videos,'=h,,test,3,",
    ]
