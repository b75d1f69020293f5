"""What an audit finds, and the tables of it.

Labels that are probably wrong or missing, on which people decide in a table. Odd classes: pairs that always or hardly
ever come together, or that no model tells apart, and rare ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.datasets.make_records.human_labels import MISSING, WRONG, read_decisions
from yt8m.eval_util.arrays import Bools, Floats64, Ints64
from yt8m.labels.folds import AuditedVideos, FoldScores
from yt8m.labels.label_noise import LabelNoise, PairCounts, estimate
from yt8m.records import shards
from yt8m.records.prediction_files import spreadsheet_text, write_table
from yt8m.records.vocabulary import Vocabulary

HEADER = ("rank", "video", "class", "kind", "chance")
_ANSWERS = {True: "yes", False: "no", None: ""}
CLASS_HEADER = ("finding", "class", "other", "split", "videos", "value")
TOGETHER, APART, CONFUSED, FEW = "always together", "hardly ever together", "not told apart", "too few videos"
_ALWAYS = 0.98  # the share of the videos of each class that have the other
_HARDLY = 0.05  # of the videos that would have both if the classes were independent
_EXPECTED = 20.0  # videos that would have both, so that a smaller number says something
_CONFUSED = 0.3  # the share of the videos of each class in which the other has the higher score
_ENOUGH = 10  # videos of a class
_MOST = 1000  # pairs of a kind


class LabelIssues(NamedTuple):
    """Labels that may be wrong or missing, the most probable first. All arrays are [P].

    Attributes:
      videos: int64, the index of the video.
      classes: int64.
      is_missing: bool; False for a label that may be wrong.
      chances: float64, the estimated chance that it is.
    """

    videos: Ints64
    classes: Ints64
    is_missing: Bools
    chances: Floats64

    def first(self, count: int) -> LabelIssues:
        """The first `count` issues."""
        return LabelIssues(self.videos[:count], self.classes[:count], self.is_missing[:count], self.chances[:count])


def noise_of(scores: FoldScores) -> LabelNoise:
    """What the scores of an audit say about wrong and missing labels."""
    listed = PairCounts.of_pairs(len(scores.counts.labelled), scores.best, scores.best_scores, are_labels(scores))
    return estimate(scores.counts, listed)


def find_issues(scores: FoldScores, noise: LabelNoise, least: float = 0.0) -> LabelIssues:
    """All labels that are wrong, and all classes of the best scores that are missing, with a chance from `least` on.

    Of equal chances the larger odds come first, and then the score that contradicts the label most.
    """
    rows, columns = np.nonzero(~are_labels(scores))
    owners, classes = scores.owners(), scores.labels.astype(np.int64)
    other = scores.best[rows, columns].astype(np.int64)
    evidence = np.concatenate(
        [
            -noise.margins.at(classes, scores.label_scores),
            noise.margins.at(other, scores.best_scores[rows, columns]) + noise.margins.prior[other],
        ]
    )
    odds = np.concatenate(
        [noise.wrong_odds(classes, scores.label_scores), noise.missing_odds(other, scores.best_scores[rows, columns])]
    )
    chances = np.concatenate([noise.chance_wrong(odds[: len(classes)]), noise.chance_missing(odds[len(classes) :])])
    order = np.lexsort((-evidence, -odds, -chances))
    order = order[chances[order] >= least]
    videos, is_missing = np.concatenate([owners, rows]), np.arange(len(chances)) >= len(classes)
    return LabelIssues(videos[order], np.concatenate([classes, other])[order], is_missing[order], chances[order])


def are_labels(scores: FoldScores) -> Bools:
    """Whether each of the best classes is a label of its video, bool [N, BEST]."""
    width = int(max(scores.labels.max(initial=0), scores.best.max(initial=0))) + 1
    labels = scores.owners() * width + scores.labels
    best = np.arange(len(scores.best))[:, np.newaxis] * width + scores.best
    return np.isin(best, labels)


def write_issues(path: str, issues: LabelIssues, ids: Sequence[str], names: Vocabulary) -> None:
    """Writes `issues.csv`. Ids and names are written by `spreadsheet_text`, since people open it in spreadsheets."""
    write_table(path, HEADER, _rows(issues, ids, names))


def write_decisions(path: str, issues: LabelIssues, ids: Sequence[str], names: Vocabulary) -> int:
    """Writes the table of decisions, in which the column `decision` is empty.

    If there is such a table already, its decisions are kept, also those on labels that are not issues any more.

    Returns:
      The number of decisions that were kept.
    """
    earlier = [each for each in (read_decisions(path) if storage.exists(path) else ()) if each.is_right is not None]
    decided = {(each.video, each.label, each.kind): _ANSWERS[each.is_right] for each in earlier}
    rows = []
    for row, video, number in zip(
        _rows(issues, ids, names), issues.videos.tolist(), issues.classes.tolist(), strict=True
    ):
        key = (bytes_of(ids[video]), class_text(names, number), row[3])
        rows.append([*row, decided.pop(key, "") if decided else ""])
    for (video, label, kind), answer in decided.items():
        rows.append(["", spreadsheet_text(shards.id_text(video)), spreadsheet_text(label), kind, "", answer])
    write_table(path, (*HEADER, "decision"), rows)
    return len(earlier)


def bytes_of(text: str) -> bytes:
    """The id whose text this is."""
    return shards.id_bytes(text.encode("utf-8", "surrogateescape"))


def class_text(names: Vocabulary, number: int) -> str:
    """A class as tables of labels name it: by its name, or by its number if it has none of its own."""
    name = names.names[number] if number < len(names) else ""
    return name if name and names.names.count(name) == 1 else str(number)


def _rows(issues: LabelIssues, ids: Sequence[str], names: Vocabulary) -> Iterator[list[Any]]:
    texts: Mapping[int, str] = {number: class_text(names, number) for number in np.unique(issues.classes).tolist()}
    columns = (values.tolist() for values in issues)
    for rank, (video, number, is_missing, chance) in enumerate(zip(*columns, strict=True), 1):
        kind = MISSING if is_missing else WRONG
        yield [rank, spreadsheet_text(ids[video]), spreadsheet_text(texts[number]), kind, f"{chance:.4f}"]


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


def find_odd_classes(scores: FoldScores, videos: AuditedVideos, names: Vocabulary) -> list[ClassFinding]:
    """All findings on classes, kind by kind."""
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
        indices = np.arange(len(labels) - distance)
        same = indices + distance < np.repeat(starts + scores.num_labels, scores.num_labels)[: len(indices)]
        keys.append(labels[indices[same]] * num_classes + labels[indices[same] + distance])
    return _pairs_of(np.concatenate([np.zeros(0, np.int64), *keys]), num_classes)


def _together(both: _PairCounts, totals: Ints64, text: Sequence[str]) -> Iterator[ClassFinding]:
    share = both.videos / np.maximum(totals[both.first], totals[both.second])
    return _of_pairs(TOGETHER, both, (share >= _ALWAYS) & (both.videos >= _ENOUGH), both.videos, share, text)


def _apart(both: _PairCounts, totals: Ints64, videos: int, text: Sequence[str]) -> Iterator[ClassFinding]:
    """Pairs that hardly ever come together, though they do in some videos, whose labels contradict one another."""
    expected = totals[both.first] * totals[both.second] / max(videos, 1)
    is_odd = (expected >= _EXPECTED) & (both.videos <= _HARDLY * expected)
    return _of_pairs(APART, both, is_odd, expected, both.videos / expected, text)


def _of_pairs(
    finding: str, both: _PairCounts, is_odd: Bools, rank: NDArray[Any], values: Floats64, text: Sequence[str]
) -> Iterator[ClassFinding]:
    """The findings on the odd pairs, those of the largest rank first."""
    indices = np.flatnonzero(is_odd)
    for index in indices[np.argsort(-rank[indices], kind="stable")][:_MOST].tolist():
        pair = text[both.first[index]], text[both.second[index]]
        yield ClassFinding(finding, *pair, "", int(both.videos[index]), float(values[index]))


def _confused(scores: FoldScores, totals: Ints64, text: Sequence[str]) -> Iterator[ClassFinding]:
    """Pairs of which each often has the higher score in videos of the other."""
    num_classes, owners = len(totals), scores.owners()
    higher = (scores.best_scores[owners] > scores.label_scores[:, np.newaxis]) & ~are_labels(scores)[owners]
    rows, columns = np.nonzero(higher)
    taken = scores.best[owners[rows], columns].astype(np.int64)
    wrong = _pairs_of(scores.labels[rows].astype(np.int64) * num_classes + taken, num_classes)
    shares = wrong.first.tolist(), wrong.second.tolist(), wrong.videos / totals[wrong.first]
    share = {(first, second): value for first, second, value in zip(*shares, strict=True)}
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


def write_odd_classes(path: str, findings: Sequence[ClassFinding]) -> None:
    """Writes `classes.csv`."""
    rows = []
    for each in findings:
        value = "" if np.isnan(each.value) else f"{each.value:.4f}"
        rows.append([each.finding, *map(spreadsheet_text, (each.label, each.other, each.split)), each.videos, value])
    write_table(path, CLASS_HEADER, rows)
