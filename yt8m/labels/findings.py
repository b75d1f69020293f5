"""Finds issues in the labels of audited videos, and writes them as tables.

An issue is a label that may be wrong, or a class that may be a missing label of a video; people decide on issues in a
table. Odd classes are pairs of classes that always or hardly ever occur in the same videos or that the models confuse,
and classes with few videos.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.datasets.make_records.human_labels import MISSING, WRONG, Decision, read_decisions
from yt8m.eval_util.arrays import Bools, Floats64, Ints64
from yt8m.labels.folds import AuditedVideos, FoldScores
from yt8m.labels.label_noise import LabelNoise, estimate
from yt8m.records import shards
from yt8m.records.prediction_files import write_table
from yt8m.records.vocabulary import Vocabulary
from yt8m.tables.words.spreadsheets import spreadsheet_text, text_of_spreadsheet

HEADER = ("rank", "video", "class", "kind", "chance")
ANSWERS = {True: "yes", False: "no", None: ""}  # {Decision.is_right: its text in a table}
_UNIT = "videos"  # what is counted in the column and in the texts below, unless the labels are of cells
CLASS_HEADER = ("finding", "class", "other", "split", "videos", "value")
TOGETHER, APART, CONFUSED, FEW = "always together", "hardly ever together", "not told apart", "too few videos"
# TOGETHER: of the videos of each of the two classes, at least this share has the other class.
_TOGETHER_SHARE = 0.98
# APART: if the classes were independent, at least _EXPECTED videos would have both; at most the share _APART_SHARE of
# that number does.
_APART_SHARE = 0.05
_EXPECTED = 20.0
# CONFUSED: in at least this share of the videos of each of the two classes, the other class has the higher score
# without being a label.
_CONFUSED_SHARE = 0.3
_FEWEST_VIDEOS = 10  # a class with fewer videos is not judged as one of a pair; in a split it is reported as FEW
_MOST_PAIRS = 1000  # largest number of pairs that are reported of each kind


class LabelIssues(NamedTuple):
    """Labels that may be wrong or missing, the most probable first. All arrays are [P].

    Attributes:
      videos: int64, the index of the video.
      classes: int64, the class of the label.
      chances: float64, the estimated chance that the label is missing or wrong.
    """

    videos: Ints64
    classes: Ints64
    is_missing: Bools
    chances: Floats64

    def first(self, count: int) -> LabelIssues:
        """The first `count` issues."""
        return LabelIssues(self.videos[:count], self.classes[:count], self.is_missing[:count], self.chances[:count])


def estimate_noise(scores: FoldScores) -> LabelNoise:
    """Estimates, from the scores of an audit, how many labels are wrong or missing; see `label_noise`."""
    return estimate(scores.counts)


def find_issues(scores: FoldScores, noise: LabelNoise, least: float = 0.0) -> LabelIssues:
    """Finds issues: labels that may be wrong, and labels that may be missing.

    The candidates are every label, which may be wrong, and every class in `scores.best` that is no label of its video,
    which may be missing. Both kinds are sorted together by the log-odds of the error, high to low. If the chances of
    the two kinds cannot be compared (`LabelNoise.is_comparable`), labels are listed as wrong that come before the last
    one that is listed as missing, whatever their chance.
    """
    rows, columns = np.nonzero(~is_label(scores))
    owners, classes = scores.owners(), scores.labels.astype(np.int64)
    other = scores.best[rows, columns].astype(np.int64)
    labels, others = (classes, scores.label_scores), (other, scores.best_scores[rows, columns])
    chances = np.concatenate([noise.wrong_chances(*labels), noise.missing_chances(*others)])
    odds = np.concatenate([noise.wrong_odds(*labels), noise.missing_odds(*others)])
    videos, is_missing = np.concatenate([owners, rows]), np.arange(len(chances)) >= len(classes)
    is_listed = chances >= least
    if not noise.is_comparable:
        is_listed = _are_listed(odds, is_missing, is_listed)
    order = np.argsort(-odds, kind="stable")
    order = order[is_listed[order]]
    return LabelIssues(videos[order], np.concatenate([classes, other])[order], is_missing[order], chances[order])


def _are_listed(odds: Floats64, is_missing: Bools, is_probable: Bools) -> Bools:
    """Which issues are listed if the chances of wrong and missing labels cannot be compared.

    Args:
      odds: [P], by which the issues are sorted.
      is_missing: [P], whether they are missing labels.
      is_probable: [P], whether their chance is large enough to list them.
    """
    return np.asarray(is_probable | (~is_missing & (odds >= odds[is_missing & is_probable].min(initial=np.inf))))


def is_label(scores: FoldScores) -> Bools:
    """bool of the shape of `scores.best`: whether each of the best classes is a label of its video."""
    width = int(max(scores.labels.max(initial=0), scores.best.max(initial=0))) + 1
    labels = scores.owners() * width + scores.labels
    best = np.arange(len(scores.best))[:, np.newaxis] * width + scores.best
    return np.isin(best, labels)


def write_issues(path: str, issues: LabelIssues, ids: Sequence[str], names: Vocabulary) -> None:
    """Writes the table `issues.csv`, one row for each issue, with the columns of `HEADER`.

    Ids and names that a spreadsheet would evaluate as formulas are escaped by `spreadsheet_text`.
    """
    write_table(path, HEADER, _rows(issues, ids, names))


def write_decisions(path: str, issues: LabelIssues, ids: Sequence[str], names: Vocabulary) -> int:
    """Writes `decisions.csv`: the table of issues with one more column, `decision`, in which people write yes or no.

    If the file exists, it is replaced, but its decisions are kept, even those on labels that are no issues any more;
    these are the last rows. The arguments are those of `write_issues`.
    """
    return write_decision_rows(path, HEADER, _rows(issues, ids, names))


def write_decision_rows(path: str, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> int:
    """Writes `decisions.csv` from rows of issues, as `write_decisions` does.

    Args:
      header: the names of the columns of `rows`.
    """
    rows_before = read_decisions(path) if storage.exists(path) else ()
    decisions = [decision for decision in rows_before if decision.is_right is not None]
    text_of_decision = {key_of(decision): ANSWERS[decision.is_right] for decision in decisions}
    written = []
    for row in rows:
        key = key_of_row(dict(zip(header, map(str, row), strict=True)))
        written.append([*row, text_of_decision.pop(key, "") if text_of_decision else ""])
    for (video, label, kind, span), text in text_of_decision.items():
        start, end = map(time_text, span) if span else ("", "")
        cells = {"video": spreadsheet_text(shards.id_text(video)), "class": spreadsheet_text(label), "kind": kind}
        cells |= {"start": start, "end": end}
        written.append([*(cells.get(name, "") for name in header), text])
    write_table(path, (*header, "decision"), written)
    return len(decisions)


Key = tuple[bytes, str, str, tuple[float, float] | None]  # what a decision is about: video, class, kind and time


def key_of(decision: Decision) -> Key:
    """What a decision is about."""
    return decision.video, decision.label, decision.kind, decision.span


def key_of_row(row: Mapping[str, str]) -> Key:
    """What a row of a table of issues is about; its cells may have the quotes of `spreadsheet_text`."""
    span = (float(row["start"]), float(row["end"])) if row.get("start") else None
    return id_of_text(text_of_spreadsheet(row["video"])), text_of_spreadsheet(row["class"]), row["kind"], span


def time_text(seconds: float) -> str:
    """A time in a table of issues."""
    return f"{seconds:.3f}".rstrip("0").rstrip(".")


def id_of_text(text: str) -> bytes:
    """The id of a video as in its record, from the text that tables have for it (`shards.id_text`)."""
    return shards.id_bytes(text.encode("utf-8", "surrogateescape"))


def class_text(names: Vocabulary, number: int) -> str:
    """The text of a class in tables of labels: its name, or its number if it has no name or shares it with others."""
    name = names.names[number] if number < len(names) else ""
    return name if name and names.names.count(name) == 1 else str(number)


def _rows(issues: LabelIssues, ids: Sequence[str], names: Vocabulary) -> Iterator[list[Any]]:
    """Yields the rows of the table of issues, with the columns of `HEADER`; ranks begin with 1."""
    texts: Mapping[int, str] = {number: class_text(names, number) for number in np.unique(issues.classes).tolist()}
    columns = (values.tolist() for values in issues)
    for rank, (video, number, is_missing, chance) in enumerate(zip(*columns, strict=True), 1):
        kind = MISSING if is_missing else WRONG
        yield [rank, spreadsheet_text(ids[video]), spreadsheet_text(texts[number]), kind, f"{chance:.4f}"]


class ClassFinding(NamedTuple):
    """Something odd about a class, or about two.

    Attributes:
      label, other: the texts of the classes; `other` is empty for FEW, which is about one class.
      split: for FEW, the split that has too few videos of the class; otherwise empty.
      videos: for TOGETHER and APART the number of videos with both classes, for CONFUSED the numbers of videos of
        the two classes added up, for FEW the number of videos of the class in the split.
      value: for TOGETHER the share of the videos of the more frequent class that have the other class too. For APART
        the number of videos with both classes, divided by the number that would have both if the classes were
        independent. For CONFUSED each class has a share of videos in which the other class, which is no label of the
        video, has the higher score; the value is the smaller of the two shares. nan for FEW.
    """

    finding: str
    label: str
    other: str
    split: str
    videos: int
    value: float


class _PairCounts(NamedTuple):
    """The number of videos of each pair of classes. All arrays are int64 [P].

    Attributes:
      first, second: the classes.
    """

    first: Ints64
    second: Ints64
    videos: Ints64


def find_odd_classes(scores: FoldScores, videos: AuditedVideos, names: Vocabulary) -> list[ClassFinding]:
    """All findings on classes: first TOGETHER, then APART, CONFUSED and FEW."""
    num_classes = len(scores.counts.labelled)
    totals = np.bincount(scores.labels, minlength=num_classes).astype(np.int64)
    texts = [class_text(names, number) for number in range(num_classes)]
    both = _count_labelled_pairs(scores, num_classes)
    return [
        *_find_together(both, totals, texts),
        *_find_apart(both, totals, len(videos.ids), texts),
        *_find_confused(scores, totals, texts),
        *_find_few(scores, videos, texts),
    ]


def _count_pairs(keys: Ints64, num_classes: int) -> _PairCounts:
    """Counts how often each pair of classes is in `keys`; its key is first class x num_classes + second class."""
    pairs, counts = np.unique(keys, return_counts=True)
    return _PairCounts(pairs // num_classes, pairs % num_classes, counts.astype(np.int64))


def _count_labelled_pairs(scores: FoldScores, num_classes: int) -> _PairCounts:
    """Counts the videos that have both classes as labels, for each pair with first < second."""
    starts, labels = np.cumsum(scores.num_labels) - scores.num_labels, scores.labels.astype(np.int64)
    keys = []
    for distance in range(1, int(scores.num_labels.max(initial=0))):
        indices = np.arange(len(labels) - distance)
        # The label that is `distance` places after another one may already belong to the next video.
        is_same_video = indices + distance < np.repeat(starts + scores.num_labels, scores.num_labels)[: len(indices)]
        firsts = indices[is_same_video]
        keys.append(labels[firsts] * num_classes + labels[firsts + distance])
    return _count_pairs(np.concatenate([np.zeros(0, np.int64), *keys]), num_classes)


def _find_together(both: _PairCounts, totals: Ints64, texts: Sequence[str]) -> Iterator[ClassFinding]:
    """Finds pairs that almost always occur in the same videos, those with the most videos first.

    Args:
      totals: [C], number of videos of each class.
    """
    share = both.videos / np.maximum(totals[both.first], totals[both.second])
    is_odd = (share >= _TOGETHER_SHARE) & (both.videos >= _FEWEST_VIDEOS)
    return _list_odd_pairs(TOGETHER, both, is_odd, both.videos, share, texts)


def _find_apart(both: _PairCounts, totals: Ints64, videos: int, texts: Sequence[str]) -> Iterator[ClassFinding]:
    """Finds pairs that occur in the same videos much more rarely than independent classes would.

    Pairs that no video has are left out: a video with both labels is what people can look at, because the two labels
    may contradict each other. The pairs that independent classes would have most often come first.

    Args:
      totals: [C], number of videos of each class.
    """
    expected = totals[both.first] * totals[both.second] / max(videos, 1)
    is_odd = (expected >= _EXPECTED) & (both.videos <= _APART_SHARE * expected)
    return _list_odd_pairs(APART, both, is_odd, expected, both.videos / expected, texts)


def _list_odd_pairs(
    finding: str, both: _PairCounts, is_odd: Bools, ranks: NDArray[Any], values: Floats64, texts: Sequence[str]
) -> Iterator[ClassFinding]:
    """Lists the odd pairs among P pairs, at most _MOST_PAIRS.

    Args:
      is_odd: [P], which pairs are listed.
      ranks: [P]; pairs with larger numbers come first.
      values: [P], `ClassFinding.value` of each pair.
    """
    indices = np.flatnonzero(is_odd)
    for index in indices[np.argsort(-ranks[indices], kind="stable")][:_MOST_PAIRS].tolist():
        pair = texts[both.first[index]], texts[both.second[index]]
        yield ClassFinding(finding, *pair, "", int(both.videos[index]), float(values[index]))


def _find_confused(scores: FoldScores, totals: Ints64, texts: Sequence[str]) -> Iterator[ClassFinding]:
    """Finds pairs of classes that the models confuse, the most confused first.

    In many videos of each of the two classes, the other one has the higher score without being a label.

    Args:
      totals: [C], number of videos of each class.
    """
    num_classes, owners = len(totals), scores.owners()
    higher = (scores.best_scores[owners] > scores.label_scores[:, np.newaxis]) & ~is_label(scores)[owners]
    rows, columns = np.nonzero(higher)
    higher_classes = scores.best[owners[rows], columns].astype(np.int64)
    pairs = _count_pairs(scores.labels[rows].astype(np.int64) * num_classes + higher_classes, num_classes)
    columns_of_pairs = pairs.first.tolist(), pairs.second.tolist(), pairs.videos / totals[pairs.first]
    # {(label, other class): the share of the videos with the label in which the other class has the higher score}
    shares = {(label, other): share for label, other, share in zip(*columns_of_pairs, strict=True)}
    confused = [
        (min(share, shares.get((second, first), 0.0)), first, second)
        for (first, second), share in shares.items()
        if first < second and min(totals[first], totals[second]) >= _FEWEST_VIDEOS
    ]
    confused = sorted((pair for pair in confused if pair[0] >= _CONFUSED_SHARE), reverse=True)
    for share, first, second in confused[:_MOST_PAIRS]:
        videos = int(totals[first] + totals[second])
        yield ClassFinding(CONFUSED, texts[first], texts[second], "", videos, float(share))


def _find_few(scores: FoldScores, videos: AuditedVideos, texts: Sequence[str]) -> Iterator[ClassFinding]:
    """Finds the classes of which a split has fewer than _FEWEST_VIDEOS videos, or 0; skips splits without any label."""
    splits = videos.splits[scores.owners()]
    for number, name in enumerate(videos.split_names):
        counts = np.bincount(scores.labels[splits == number], minlength=len(texts))
        for label in np.flatnonzero(counts < _FEWEST_VIDEOS).tolist() if counts.any() else ():
            yield ClassFinding(FEW, texts[label], "", name, int(counts[label]), np.nan)


def write_odd_classes(path: str, findings: Sequence[ClassFinding], unit: str = _UNIT) -> None:
    """Writes the findings as `classes.csv`, with the columns of `CLASS_HEADER`; a value of nan is an empty cell.

    Args:
      unit: what has the labels, such as videos.
    """
    rows = []
    for each in findings:
        value = "" if np.isnan(each.value) else f"{each.value:.4f}"
        rows.append(
            [
                each.finding.replace(_UNIT, unit),
                *map(spreadsheet_text, (each.label, each.other, each.split)),
                each.videos,
                value,
            ]
        )
    write_table(path, [column.replace(_UNIT, unit) for column in CLASS_HEADER], rows)
