"""The list of labels that are probably wrong or missing, and the table in which people decide on them."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from yt8m import storage
from yt8m.datasets.make_records.corrections import MISSING, WRONG, read_decisions
from yt8m.eval_util.arrays import Bools, Floats64, Ints64
from yt8m.labels.fold_scores import FoldScores
from yt8m.labels.label_noise import LabelNoise, PairCounts, estimate
from yt8m.records import shards
from yt8m.records.prediction_files import spreadsheet_text
from yt8m.records.vocabulary import Vocabulary

HEADER = ("rank", "video", "class", "kind", "chance")
_ANSWERS = {True: "yes", False: "no", None: ""}


class LabelIssues(NamedTuple):
    """Labels that may be wrong or missing, the most probable first. All arrays are [P].

    Attributes:
      videos: int64, the place of the video.
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
    _write(path, HEADER, _rows(issues, ids, names))


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
    _write(path, (*HEADER, "decision"), rows)
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


def _write(path: str, header: Sequence[str], rows: Any) -> None:
    with storage.write_atomic(path, "w") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(header)
        lines.writerows(rows)
