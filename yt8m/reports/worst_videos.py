"""The videos with the largest loss, and the labels that look wrong or missing."""

from __future__ import annotations

import csv
import os
from typing import NamedTuple

import numpy as np

from yt8m import storage
from yt8m.eval_util.arrays import Bools, Floats64, Ints64
from yt8m.eval_util.videos import Videos
from yt8m.records import shards
from yt8m.records.vocabulary import Vocabulary
from yt8m.tables.words.spreadsheets import spreadsheet_text

MOST_VIDEOS = 5000  # about so many videos are shown on a page
_MOST_OVERALL = 100  # videos that are chosen by their loss alone; the others are examples of single classes
_MOST_OF_CLASS = 50  # examples of a class, if MOST_VIDEOS allows so many
_LEAST_PART = 0.01  # what a class must add to the loss of a video if the video is a second or later example of it
_MOST_SHOWN = 3  # number of labels, and of wrong predictions, of a video that are shown; its examples are shown too
_EPSILON = 1e-5  # is added before a logarithm, so that the loss is finite, as in the loss of the evaluation


class LossPairs(NamedTuple):
    """(video, class) pairs, each with its part of the loss of the video. All arrays are [P].

    Attributes:
      rows: int64, the row of the video in `Videos`.
      classes: int64, the class.
      scores: float64, the score of the class.
      parts: float64, what the class adds to the loss: -log(score) for a label, -log(1 - score) for another class, each
        with _EPSILON added before the logarithm.
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
    """The (video, class) pairs of all videos: first those of the labels, then those of wrong predicted classes."""
    wrong_rows, columns = np.nonzero(videos.ranked & ~videos.hits)
    rows = np.concatenate([videos.owners(), wrong_rows])
    classes = np.concatenate([videos.labels, videos.classes[wrong_rows, columns]]).astype(np.int64)
    scores = np.concatenate([videos.label_scores, videos.scores[wrong_rows, columns]]).astype(np.float64)
    is_label = np.arange(len(rows)) < len(videos.labels)
    return LossPairs(rows, classes, is_label, scores, -np.log(np.where(is_label, scores, 1 - scores) + _EPSILON))


def find_worst(videos: Videos, names: Vocabulary, most_videos: int = MOST_VIDEOS) -> list[WorstVideo]:
    """The videos with the largest loss, and examples of each class, sorted by loss, the largest first.

    The best example of a class is the video to whose loss the class adds most, as a label or as a wrong prediction.
    About `most_videos` are chosen: first the _MOST_OVERALL videos with the largest loss; then one example of each
    class, even if these make more than `most_videos`; then a second example of each class, and so on, up to
    _MOST_OF_CLASS. A second or later example is taken only if the class adds at least _LEAST_PART to its loss.
    Each video is shown with the classes of which it is an example, and with the _MOST_SHOWN labels and as many wrong
    predictions that add most to its loss.
    """
    pairs = pairs_of(videos)
    overall = np.argsort(-videos.losses, kind="stable")[: min(_MOST_OVERALL, most_videos)]
    examples = _choose_examples(pairs, overall, most_videos)
    rows = np.union1d(overall, pairs.rows[examples])
    shares = _class_shares(pairs, rows, examples, names)
    return [
        WorstVideo(shards.id_text(videos.ids[row]), float(videos.losses[row]), *shares[row])
        for row in rows[np.argsort(-videos.losses[rows], kind="stable")].tolist()
    ]


def _choose_examples(pairs: LossPairs, overall: Ints64, most_videos: int) -> Ints64:
    """The indices of the pairs whose videos are shown as examples of their classes."""
    ranks = _ranks_in_groups(pairs.classes, pairs.parts)
    examples = np.flatnonzero((ranks == 0) | ((ranks < _MOST_OF_CLASS) & (pairs.parts >= _LEAST_PART)))
    examples = examples[np.lexsort((-pairs.parts[examples], ranks[examples]))]
    rows = np.concatenate([overall, pairs.rows[examples]])
    is_new = np.zeros(len(rows), np.bool_)
    is_new[np.unique(rows, return_index=True)[1]] = True
    num_videos = np.cumsum(is_new)[len(overall) :]
    return np.asarray(examples[(num_videos <= most_videos) | (ranks[examples] == 0)])


def _ranks_in_groups(groups: Ints64, values: Floats64) -> Ints64:
    """int64 [P], the rank of each of the values [P] in its group: 0 for the largest value of the group."""
    order = np.lexsort((-values, groups))
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    return ranks


def _class_shares(
    pairs: LossPairs, rows: Ints64, examples: Ints64, names: Vocabulary
) -> dict[int, tuple[list[ClassShare], list[ClassShare]]]:
    """{row: (labels, wrong predictions)} of the videos with these rows, as they are shown.

    Of each video these are the _MOST_SHOWN labels, and as many wrong predictions, that add most to its loss, and the
    classes of the pairs with the indices `examples`. The largest part of the loss comes first.
    """
    indices = np.flatnonzero(np.isin(pairs.rows, rows))
    ranks = _ranks_in_groups(pairs.rows[indices] * 2 + pairs.is_label[indices], pairs.parts[indices])
    shown_pairs = np.union1d(indices[ranks < _MOST_SHOWN], examples)
    shares: dict[int, tuple[list[ClassShare], list[ClassShare]]] = {row: ([], []) for row in rows.tolist()}
    for index in shown_pairs[np.argsort(-pairs.parts[shown_pairs], kind="stable")].tolist():
        share = ClassShare(names.name(int(pairs.classes[index])), float(pairs.scores[index]), float(pairs.parts[index]))
        shares[int(pairs.rows[index])][0 if pairs.is_label[index] else 1].append(share)
    return shares


_LABELS_TO_CHECK = "labels_to_check.csv"
MISSING_SCORE = 0.9  # a class that is not a label looks like a missing label from this score on
WRONG_SCORE = 0.01  # a label looks wrong up to this score
_MOST_LABELS_TO_CHECK = 100_000


def labels_to_check_path(page: str, usual_name: str) -> str:
    """The path of the file of labels to check that belongs to a page; it is in the folder of the page.

    The name of the file begins with that of the page if this is not `usual_name`. So the pages of several runs in one
    folder have a file each.
    """
    folder, name = os.path.split(page)
    stem = os.path.splitext(name)[0]
    return storage.join(folder, _LABELS_TO_CHECK if name == usual_name else f"{stem}_{_LABELS_TO_CHECK}")


def write_labels_to_check(path: str, videos: Videos, names: Vocabulary) -> int:
    """Writes a CSV file of the labels that look wrong or missing (by WRONG_SCORE and MISSING_SCORE).

    The labels that add most to the loss come first; at most _MOST_LABELS_TO_CHECK are written. People open the file in
    spreadsheets, so ids and names are written by `spreadsheet_text`, and all fields are quoted.
    """
    pairs = pairs_of(videos)
    suspects = np.flatnonzero(np.where(pairs.is_label, pairs.scores <= WRONG_SCORE, pairs.scores >= MISSING_SCORE))
    suspects = suspects[np.argsort(-pairs.parts[suspects], kind="stable")][:_MOST_LABELS_TO_CHECK]
    with storage.write_atomic(path, "w") as file:
        lines = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
        lines.writerow(["video", "index", "name", "score", "label", "looks"])
        for index in suspects.tolist():
            number, video = int(pairs.classes[index]), shards.id_text(videos.ids[pairs.rows[index]])
            verdict = ("yes", "wrong") if pairs.is_label[index] else ("no", "missing")
            score = f"{pairs.scores[index]:.6g}"
            lines.writerow([spreadsheet_text(video), number, spreadsheet_text(names.name(number)), score, *verdict])
    return len(suspects)
