"""The videos that add most to the loss: their labels against the predictions, and labels that look wrong or missing."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from yt8m import storage
from yt8m.errors import RunError, UsageError
from yt8m.eval_util.arrays import Bools, Floats64, Ints64
from yt8m.eval_util.videos import Videos
from yt8m.records import shards
from yt8m.records.vocabulary import Vocabulary

MOST = 1000  # videos on the page
_OVERALL = 100  # of which these have the largest loss of all; the others are the worst ones of single classes
_EACH = 5  # labels, and wrong predictions, that are shown of a video
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
    """A video with its labels and its wrong predictions, those that add most to its loss first."""

    id: str
    loss: float
    labels: list[ClassShare]
    wrong: list[ClassShare]


def pairs_of(videos: Videos) -> LossPairs:
    """All labels of the videos, then all predictions among the best classes that are not labels."""
    wrong_rows, columns = np.nonzero(videos.ranked & ~videos.hits)
    rows = np.concatenate([videos.owners(), wrong_rows])
    classes = np.concatenate([videos.labels, videos.classes[wrong_rows, columns]]).astype(np.int64)
    scores = np.concatenate([videos.label_scores, videos.scores[wrong_rows, columns]]).astype(np.float64)
    is_label = np.arange(len(rows)) < len(videos.labels)
    return LossPairs(rows, classes, is_label, scores, -np.log(np.where(is_label, scores, 1 - scores) + _EPSILON))


def worst(videos: Videos, names: Vocabulary, most: int = MOST) -> list[WorstVideo]:
    """The videos with the largest loss, and those in which a single class adds most, the largest loss first.

    Besides the worst videos of all there are at most two of each class, and at most `most` videos together.
    """
    pairs = pairs_of(videos)
    overall = np.argsort(-videos.losses, kind="stable")[: min(_OVERALL, most)]
    of_classes = pairs.rows[_first_of_each(pairs.classes, pairs.parts, 2)]
    _, places = np.unique(of_classes, return_index=True)
    others = of_classes[np.sort(places)]
    rows = np.concatenate([overall, others[~np.isin(others, overall)]])[:most]
    marks = _marks(pairs, rows, names)
    return [
        WorstVideo(shards.id_text(videos.ids[row]), float(videos.losses[row]), *marks[row])
        for row in rows[np.argsort(-videos.losses[rows], kind="stable")].tolist()
    ]


def _first_of_each(groups: Ints64, values: Floats64, count: int) -> Ints64:
    """The places of the `count` largest values of each group, the largest of all first."""
    order = np.lexsort((-values, groups))
    starts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    rank = np.arange(len(order)) - np.repeat(starts, np.diff(starts, append=len(order)))
    kept = order[rank < count]
    return np.asarray(kept[np.argsort(-values[kept], kind="stable")])


def _marks(pairs: LossPairs, rows: Ints64, names: Vocabulary) -> dict[int, tuple[list[ClassShare], list[ClassShare]]]:
    """{video: (its labels, its wrong predictions)}, at most _EACH of each kind."""
    kept = np.flatnonzero(np.isin(pairs.rows, rows))
    kept = kept[_first_of_each(pairs.rows[kept] * 2 + pairs.is_label[kept], pairs.parts[kept], _EACH)]
    found: dict[int, tuple[list[ClassShare], list[ClassShare]]] = {row: ([], []) for row in rows.tolist()}
    for place in kept.tolist():
        mark = ClassShare(names.name(int(pairs.classes[place])), float(pairs.scores[place]), float(pairs.parts[place]))
        found[int(pairs.rows[place])][0 if pairs.is_label[place] else 1].append(mark)
    return found


CHECKED = "labels_to_check.csv"
SURELY, HARDLY = 0.9, 0.01
_MOST_CHECKED = 100_000


def write_labels_to_check(path: str, videos: Videos, names: Vocabulary) -> int:
    """Writes the labels that look wrong (score up to HARDLY) or missing (score from SURELY on); returns their number.

    The pair that adds most to the loss is the first; at most _MOST_CHECKED are written.
    """
    pairs = pairs_of(videos)
    odd = np.flatnonzero(np.where(pairs.is_label, pairs.scores <= HARDLY, pairs.scores >= SURELY))
    odd = odd[np.argsort(-pairs.parts[odd], kind="stable")][:_MOST_CHECKED]
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["video", "index", "name", "score", "label", "looks"])
    for place in odd.tolist():
        index, is_label = int(pairs.classes[place]), bool(pairs.is_label[place])
        told = [f"{pairs.scores[place]:.6g}", *(("yes", "wrong") if is_label else ("no", "missing"))]
        lines.writerow([shards.id_text(videos.ids[pairs.rows[place]]), index, names.name(index), *told])
    with storage.write_atomic(path, "w") as file:
        file.write(text.getvalue())
    return len(odd)


def read_media(path: str, wanted: Collection[str]) -> dict[str, str]:
    """{id as text: address} of the `wanted` ids in a CSV file with the columns `id` and `address`.

    An address is kept only if a page may link to it: http, https, or a path relative to the page.

    Raises:
      UsageError: there is no such file, or it lacks a column.
    """
    if not path:
        return {}
    if not storage.exists(path):
        raise UsageError(f"--media={path}: there is no such file; expected a CSV file with the columns id,address.")
    try:
        rows = csv.reader(io.StringIO(storage.read_text(path).removeprefix("\ufeff"), newline=""), strict=True)
        header = [name.strip().lower() for name in next(rows, [])]
        if not {"id", "address"} <= set(header):
            raise UsageError(f"--media={path}: the columns are {', '.join(header) or 'missing'}; expected id,address.")
        places = header.index("id"), header.index("address")
        return {
            row[places[0]]: row[places[1]]
            for row in rows
            if len(row) > max(places) and row[places[0]] in wanted and may_be_linked(row[places[1]])
        }
    except (csv.Error, UnicodeDecodeError) as error:
        raise RunError(f"{path} is no CSV file of UTF-8 text: {error}.") from error


def may_be_linked(address: str) -> bool:
    """Whether an address is http, https, or a path relative to the page.

    Browsers remove line breaks and tabs from an address, and take a backslash for a slash. So both are refused.
    """
    if not address or address != address.strip() or "\\" in address or any(ord(one) < 32 for one in address):
        return False
    scheme, colon, rest = address.partition(":")
    if colon and "/" not in scheme and "?" not in scheme and "#" not in scheme:
        return scheme.lower() in ("http", "https") and rest.startswith("//") and len(rest) > 2
    return not address.startswith("/")
