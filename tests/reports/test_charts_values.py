"""The values that the charts tell under the pointer, each computed again by a loop over all videos and classes."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from reports import report_runs
from sklearn import metrics

from yt8m.records.vocabulary import Vocabulary
from yt8m.reports import charts, measures
from yt8m.reports.charts import Picture
from yt8m.reports.loading import Run, load
from yt8m.reports.measures import ClassFigure
from yt8m.reports.report_writer import _confused, _most_different

CLASSES = report_runs.CLASSES
VERTICALS = ("Animals", "Plants", "Animals") * 4
NAMES = Vocabulary(tuple(f"name {index}" for index in range(CLASSES)), np.zeros(CLASSES, np.int64), VERTICALS)
SCORES, LABELS = report_runs.data(1)
KNOWN = [index for index in range(CLASSES) if LABELS[:, index].any()]
APS = {index: metrics.average_precision_score(LABELS[:, index], SCORES[:, index]) for index in KNOWN}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("values")
    report_runs.make_run(folder, 1, num_classes=CLASSES)
    return load([str(folder)], 10, 0)[0]


@pytest.fixture(scope="module")
def figures(run: Run) -> list[ClassFigure]:
    return measures.class_figures(run.samples.figures, NAMES)


def texts(picture: Picture) -> list[str]:
    return [text for _, _, text in json.loads(picture.points)]


def numbers(text: str) -> list[float]:
    return [float(one.replace(",", "")) for one in re.findall(r"\d[\d,]*\.?\d*(?:e-\d+)?", text)]


def test_each_point_of_precision_and_recall_is_that_of_its_score(run):
    found = texts(charts.precision_recall([run]))
    assert len(found) > 150
    for text in found:
        precision, recall, at = numbers(text)
        taken = SCORES.astype(float) >= at * (1 - 5e-3)  # the score is told with three digits
        least = SCORES.astype(float) >= at * (1 + 5e-3)
        right = [LABELS[one].sum() for one in (least, taken)]
        assert right[0] / LABELS.sum() - 5e-4 <= recall <= right[1] / LABELS.sum() + 5e-4
        bounds = right[0] / max(1, taken.sum()), right[1] / max(1, least.sum())
        assert bounds[0] - 5e-4 <= precision <= bounds[1] + 5e-4


def test_each_dot_of_the_calibration_has_its_tenth_of_the_scores(run):
    bins = np.minimum((SCORES.astype(float) * 10).astype(int), 9)
    expected = [
        [SCORES[bins == part].mean(), LABELS[bins == part].mean(), (bins == part).sum()] for part in np.unique(bins)
    ]
    found = [numbers(text) for text in texts(charts.calibration([run]))]
    np.testing.assert_allclose(found, expected, atol=6e-4)


def test_each_class_has_its_ap_and_its_labels(run, figures):
    expected = [f"name {index}: AP {APS[index]:.3f}, {LABELS[:, index].sum()} labels" for index in KNOWN]
    assert texts(charts.classes([run], [figures])) == expected


def test_each_bar_counts_the_classes_of_its_tenth(run, figures):
    counts = [sum(int(ap * 10) == part or (part == 9 and ap == 1) for ap in APS.values()) for part in range(10)]
    found = texts(charts.average_precisions([run], [figures]))
    assert [numbers(text)[2] for text in found] == counts
    assert sum(counts) == len(KNOWN)


def test_each_vertical_has_the_mean_of_its_classes(run, figures):
    found = texts(charts.verticals([run], [measures.verticals(figures)]))
    expected = []
    for name in sorted({*VERTICALS}):
        aps = [APS[index] for index in KNOWN if VERTICALS[index] == name]
        expected.append(f"{name}: mean AP {np.mean(aps):.3f} of {len(aps)} classes")
    assert sorted(found) == expected


def test_the_classes_that_differ_most_have_the_largest_differences(figures):
    others = [
        one._replace(average_precision=one.average_precision * factor)
        for one, factor in zip(figures, np.linspace(0.2, 1.4, len(figures)), strict=True)
    ]
    pairs = _most_different(others, figures)
    expected = sorted(
        (index for index in range(len(figures)) if figures[index].positives >= 5),
        key=lambda index: -abs(others[index].average_precision - figures[index].average_precision),
    )[:10]
    assert [(ours.number, theirs.number) for ours, theirs in pairs] == [(figures[i].number,) * 2 for i in expected]
    renamed = [one._replace(name="other") if one.number == expected[0] else one for one in others]
    assert expected[0] not in [ours.number for ours, _ in _most_different(renamed, figures)]


def test_confusions_are_told_with_their_share_and_their_videos(run):
    """The first confused pair: videos that have its first class, and have the second among as many best ones."""
    (first, *_) = _confused(run, NAMES)
    missed, predicted = (int(name.split()[1]) for name in (first.missed, first.predicted))
    having = []
    for scores, labels in zip(SCORES, LABELS, strict=True):
        best = set(np.argsort(-scores, kind="stable")[: labels.sum()].tolist())
        having.append(bool(labels[missed] and missed not in best and predicted in best and not labels[predicted]))
    assert first.videos == sum(having)
    assert first.share == pytest.approx(sum(having) / LABELS[:, missed].sum())
    assert len(first.ids) == min(3, sum(having))
    assert all(having[int(one[1:])] for one in first.ids if one.startswith("v"))
