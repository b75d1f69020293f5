"""Odd classes: pairs that always or hardly ever come together, that no model tells apart, and rare ones."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from yt8m import storage
from yt8m.eval_util.arrays import Ints64
from yt8m.labels.fold_scores import FoldScores
from yt8m.labels.fold_sets import AuditedVideos
from yt8m.labels.label_issues import are_labels, class_text
from yt8m.records.prediction_files import spreadsheet_text
from yt8m.records.vocabulary import Vocabulary

HEADER = ("finding", "class", "other", "split", "videos", "value")
TOGETHER, APART, CONFUSED, FEW = "always together", "hardly ever together", "not told apart", "too few videos"
_ALWAYS = 0.98  # the share of the videos of each class that have the other
_HARDLY = 0.05  # of the videos that would have both if the classes were independent
_EXPECTED = 20.0  # videos that would have both, so that a smaller number says something
_CONFUSED = 0.3  # the share of the videos of each class in which the other has the higher score
_ENOUGH = 10  # videos of a class
_MOST = 1000  # pairs of a kind


class ClassFinding(NamedTuple):
    """Something odd about a class, or about two.

    Attributes:
      finding: TOGETHER, APART, CONFUSED or FEW.
      label, other: the classes; `other` is empty for a single class.
      split: the split that has too few videos of the class; empty for all.
      videos: number of videos of both classes, or of the class in the split.
      value: a share: for TOGETHER and CONFUSED the smaller one of the two classes, for APART the ratio to the number of
        videos that would have both if the classes were independent; nan for FEW.
    """

    finding: str
    label: str
    other: str
    split: str
    videos: int
    value: float


class _PairCounts(NamedTuple):
    """Numbers of videos by pairs of classes, all int64 [P]."""

    first: Ints64
    second: Ints64
    videos: Ints64


def find(scores: FoldScores, videos: AuditedVideos, names: Vocabulary) -> list[ClassFinding]:
    """All findings, kind by kind."""
    num_classes = len(scores.counts.labelled)
    totals = np.bincount(scores.labels, minlength=num_classes).astype(np.int64)
    text = [class_text(names, number) for number in range(num_classes)]
    both = _labelled_pairs(scores, num_classes)
    return [
        *_together(both, totals, text),
        *_apart(both, totals, len(videos.ids), text),
        *_confused(scores, totals, text),
        *_few(scores, videos, text),
    ]


def _pairs_of(keys: Ints64, num_classes: int) -> _PairCounts:
    pairs, counts = np.unique(keys, return_counts=True)
    return _PairCounts(pairs // num_classes, pairs % num_classes, counts.astype(np.int64))


def _labelled_pairs(scores: FoldScores, num_classes: int) -> _PairCounts:
    """How many videos have both classes, for pairs with first < second."""
    starts, labels = np.cumsum(scores.num_labels) - scores.num_labels, scores.labels.astype(np.int64)
    keys = []
    for distance in range(1, int(scores.num_labels.max(initial=0))):
        places = np.arange(len(labels) - distance)
        same = places + distance < np.repeat(starts + scores.num_labels, scores.num_labels)[: len(places)]
        keys.append(labels[places[same]] * num_classes + labels[places[same] + distance])
    return _pairs_of(np.concatenate([np.zeros(0, np.int64), *keys]), num_classes)


def _together(both: _PairCounts, totals: Ints64, text: Sequence[str]) -> Iterator[ClassFinding]:
    share = both.videos / np.maximum(totals[both.first], totals[both.second])
    places = np.flatnonzero((share >= _ALWAYS) & (both.videos >= _ENOUGH))
    for place in places[np.argsort(-both.videos[places], kind="stable")][:_MOST].tolist():
        pair = text[both.first[place]], text[both.second[place]]
        yield ClassFinding(TOGETHER, *pair, "", int(both.videos[place]), float(share[place]))


def _apart(both: _PairCounts, totals: Ints64, videos: int, text: Sequence[str]) -> Iterator[ClassFinding]:
    """Pairs that hardly ever come together, though they do in some videos, whose labels contradict one another."""
    expected = totals[both.first] * totals[both.second] / max(videos, 1)
    places = np.flatnonzero((expected >= _EXPECTED) & (both.videos <= _HARDLY * expected))
    for place in places[np.argsort(-expected[places], kind="stable")][:_MOST].tolist():
        pair = text[both.first[place]], text[both.second[place]]
        yield ClassFinding(APART, *pair, "", int(both.videos[place]), float(both.videos[place] / expected[place]))


def _confused(scores: FoldScores, totals: Ints64, text: Sequence[str]) -> Iterator[ClassFinding]:
    """Pairs of which each often has the higher score in videos of the other."""
    num_classes, owners = len(totals), scores.owners()
    higher = (scores.best_scores[owners] > scores.label_scores[:, np.newaxis]) & ~are_labels(scores)[owners]
    rows, columns = np.nonzero(higher)
    taken = scores.best[owners[rows], columns].astype(np.int64)
    wrong = _pairs_of(scores.labels[rows].astype(np.int64) * num_classes + taken, num_classes)
    share = dict(
        zip(
            zip(wrong.first.tolist(), wrong.second.tolist(), strict=True),
            wrong.videos / totals[wrong.first],
            strict=True,
        )
    )
    pairs = [
        (min(value, share.get((second, first), 0.0)), first, second)
        for (first, second), value in share.items()
        if first < second and min(totals[first], totals[second]) >= _ENOUGH
    ]
    for value, first, second in sorted((pair for pair in pairs if pair[0] >= _CONFUSED), reverse=True)[:_MOST]:
        yield ClassFinding(CONFUSED, text[first], text[second], "", int(totals[first] + totals[second]), float(value))


def _few(scores: FoldScores, videos: AuditedVideos, text: Sequence[str]) -> Iterator[ClassFinding]:
    """Classes with too few videos in a split that has labels."""
    splits = videos.splits[scores.owners()]
    for number, name in enumerate(videos.split_names):
        counts = np.bincount(scores.labels[splits == number], minlength=len(text))
        for label in np.flatnonzero(counts < _ENOUGH).tolist() if counts.any() else ():
            yield ClassFinding(FEW, text[label], "", name, int(counts[label]), np.nan)


def write(path: str, findings: Sequence[ClassFinding]) -> None:
    """Writes `classes.csv`."""
    with storage.write_atomic(path, "w") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(HEADER)
        for each in findings:
            value = "" if np.isnan(each.value) else f"{each.value:.4f}"
            names = map(spreadsheet_text, (each.label, each.other, each.split))
            lines.writerow([each.finding, *names, each.videos, value])
