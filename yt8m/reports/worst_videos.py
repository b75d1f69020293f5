"""The videos that add most to the loss: their labels against the predictions, and labels that look wrong or missing."""

from __future__ import annotations

import csv
import os
from typing import NamedTuple

import numpy as np

from yt8m import storage
from yt8m.eval_util.arrays import Bools, Floats64, Ints64
from yt8m.eval_util.videos import Videos
from yt8m.records import shards
from yt8m.records.prediction_files import spreadsheet_text
from yt8m.records.vocabulary import Vocabulary

MOST = 5000  # videos on the page
_OVERALL = 100  # of which these have the largest loss of all; the others are the worst ones of single classes
_OF_CLASS = 50  # videos of a single class, if MOST leaves room for so many
_LEAST = 0.01  # what a class must add to a video's loss, so that the video is a further example of the class
_EACH = 3  # labels, and wrong predictions, that are shown of any video
_EPSILON = 1e-5  # inside the logarithms, as in the loss of the evaluation


class LossPairs(NamedTuple):
    """(video, class) pairs, each with the part of the loss that it adds. All arrays are [P].

    Attributes:
      rows: int64, the video.
      classes: int64.
      is_label: bool; False for a predicted class that is not a label.
      scores: float64.
      parts: float64, -log(score) for a label and -log(1 - score) for another class.
    """

    rows: Ints64
    classes: Ints64
    is_label: Bools
    scores: Floats64
    parts: Floats64


class ClassShare(NamedTuple):
    """One class of a video: its name, its score, and the part of the video's loss that it adds."""

    name: str
    score: float
    part: float


class WorstVideo(NamedTuple):
    """A video with its labels and wrong predictions, sorted by how much they add to its loss, largest first."""

    id: str
    loss: float
    labels: list[ClassShare]
    wrong: list[ClassShare]


def pairs_of(videos: Videos) -> LossPairs:
    """First all labels of the videos; then the best classes of each video that are not labels."""
    wrong_rows, columns = np.nonzero(videos.ranked & ~videos.hits)
    rows = np.concatenate([videos.owners(), wrong_rows])
    classes = np.concatenate([videos.labels, videos.classes[wrong_rows, columns]]).astype(np.int64)
    scores = np.concatenate([videos.label_scores, videos.scores[wrong_rows, columns]]).astype(np.float64)
    is_label = np.arange(len(rows)) < len(videos.labels)
    return LossPairs(rows, classes, is_label, scores, -np.log(np.where(is_label, scores, 1 - scores) + _EPSILON))


def worst(videos: Videos, names: Vocabulary, most: int = MOST) -> list[WorstVideo]:
    """The videos with the largest loss, and examples of each class, sorted by loss, the largest first.

    The example of a class is the video to whose loss the class adds most, as a label or as a wrong prediction. About
    `most` videos are chosen: first the _OVERALL with the largest loss; then one example of each class, even if that
    makes more than `most`; then a second example of each class, and so on up to _OF_CLASS. An example after the first
    counts only if the class adds at least _LEAST to its loss.
    Each video is shown with the classes for which it was chosen, and with the _EACH labels and _EACH wrong predictions
    that add most to its loss.
    """
    pairs = pairs_of(videos)
    overall = np.argsort(-videos.losses, kind="stable")[: min(_OVERALL, most)]
    chosen = _chosen(pairs, overall, most)
    rows = np.union1d(overall, pairs.rows[chosen])
    marks = _marks(pairs, rows, chosen, names)
    return [
        WorstVideo(shards.id_text(videos.ids[row]), float(videos.losses[row]), *marks[row])
        for row in rows[np.argsort(-videos.losses[rows], kind="stable")].tolist()
    ]


def _chosen(pairs: LossPairs, overall: Ints64, most: int) -> Ints64:
    """The pairs whose videos are shown as examples of a class, in addition to the videos `overall`."""
    ranks = _ranks(pairs.classes, pairs.parts)
    examples = np.flatnonzero((ranks == 0) | ((ranks < _OF_CLASS) & (pairs.parts >= _LEAST)))
    examples = examples[np.lexsort((-pairs.parts[examples], ranks[examples]))]
    rows = np.concatenate([overall, pairs.rows[examples]])
    is_new = np.zeros(len(rows), np.bool_)
    is_new[np.unique(rows, return_index=True)[1]] = True
    videos = np.cumsum(is_new)[len(overall) :]
    return np.asarray(examples[(videos <= most) | (ranks[examples] == 0)])


def _ranks(groups: Ints64, values: Floats64) -> Ints64:
    """int64, the place of each value in its group: 0 for the largest one."""
    order = np.lexsort((-values, groups))
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    return ranks


def _marks(
    pairs: LossPairs, rows: Ints64, chosen: Ints64, names: Vocabulary
) -> dict[int, tuple[list[ClassShare], list[ClassShare]]]:
    """{video: (labels, wrong predictions)}: the pairs `chosen`, and _EACH of each kind."""
    inside = np.flatnonzero(np.isin(pairs.rows, rows))
    most = inside[_ranks(pairs.rows[inside] * 2 + pairs.is_label[inside], pairs.parts[inside]) < _EACH]
    shown_pairs = np.union1d(most, chosen)
    marks: dict[int, tuple[list[ClassShare], list[ClassShare]]] = {row: ([], []) for row in rows.tolist()}
    for place in shown_pairs[np.argsort(-pairs.parts[shown_pairs], kind="stable")].tolist():
        mark = ClassShare(names.name(int(pairs.classes[place])), float(pairs.scores[place]), float(pairs.parts[place]))
        marks[int(pairs.rows[place])][0 if pairs.is_label[place] else 1].append(mark)
    return marks


_CHECKED = "labels_to_check.csv"
SURELY, HARDLY = 0.9, 0.01
_MOST_CHECKED = 100_000


def checked_beside(page: str, usual: str) -> str:
    """The path of the labels to check of a page: in its folder, and named after it if it has not the `usual` name.

    So the pages of several runs in one folder have files of their own.
    """
    folder, name = os.path.split(page)
    stem = os.path.splitext(name)[0]
    return storage.join(folder, _CHECKED if name == usual else f"{stem}_{_CHECKED}")


def write_labels_to_check(path: str, videos: Videos, names: Vocabulary) -> int:
    """Writes the labels that look wrong (score up to HARDLY) or missing (score from SURELY on); returns their number.

    The pair that adds most to the loss is the first; at most _MOST_CHECKED are written. People open the file in
    spreadsheets, so ids and names are written by `spreadsheet_text`, and all fields are quoted.
    """
    pairs = pairs_of(videos)
    odd = np.flatnonzero(np.where(pairs.is_label, pairs.scores <= HARDLY, pairs.scores >= SURELY))
    odd = odd[np.argsort(-pairs.parts[odd], kind="stable")][:_MOST_CHECKED]
    with storage.write_atomic(path, "w") as file:
        lines = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
        lines.writerow(["video", "index", "name", "score", "label", "looks"])
        for place in odd.tolist():
            index, video = int(pairs.classes[place]), shards.id_text(videos.ids[pairs.rows[place]])
            verdict = ("yes", "wrong") if pairs.is_label[place] else ("no", "missing")
            score = f"{pairs.scores[place]:.6g}"
            lines.writerow([spreadsheet_text(video), index, spreadsheet_text(names.name(index)), score, *verdict])
    return len(odd)
