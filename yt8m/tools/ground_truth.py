"""What the records say is right: labels of videos and ratings of segments, read without TensorFlow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from yt8m import record_reader, storage
from yt8m.errors import RunError, UsageError
from yt8m.record_reader import Record, id_text
from yt8m.tools.segment_lists import video_name

_LATEST = 1 << 31  # starts and classes past it are garbage
_LISTS = ("segment_start_times", "segment_labels", "segment_scores")


class VideoLabels(NamedTuple):
    """The labels of V videos.

    Attributes:
      rows: {id: its row}, the ids as CSV files show them.
      splits: int64 [V + 1], where each row's labels begin and end.
      labels: int64, ascending in each row.
    """

    rows: dict[str, int]
    splits: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]


class Ratings(NamedTuple):
    """R rated (segment, class) pairs.

    Attributes:
      segments: `video:start`, the video as `segment_lists.video_name` writes it.
      classes: int64 [R].
      scores: float64 [R], in 0..1.
    """

    segments: list[bytes]
    classes: npt.NDArray[np.int64]
    scores: npt.NDArray[np.float64]


def files(pattern: str, flag: str = "eval_data_pattern") -> list[str]:
    """The shards that match.

    Raises:
      UsageError: none does.
    """
    found = storage.glob(pattern)
    if not found:
        raise UsageError(f"--{flag}={pattern}: no file matches. Check the path, and quote the pattern.")
    return found


def contexts(pattern: str, flag: str = "eval_data_pattern") -> Iterator[tuple[str, Record]]:
    """(where it stands, the record without its frames) of each record of the shards.

    Raises:
      RunError: a record is damaged, or has no id.
    """
    for path in files(pattern, flag):
        for number, payload in enumerate(record_reader.read_shard(path)):
            where = f"{path}: record {number}"
            try:
                record = record_reader.parse(payload, with_lists=False)
            except ValueError as error:
                raise RunError(f"{where}: {error}.") from error
            if not record.id():
                raise RunError(f"{where} has no id: neither 'id' nor 'video_id' is there.")
            yield where, record


def video_labels(pattern: str, num_classes: int, flag: str = "eval_data_pattern") -> VideoLabels:
    """The labels of all videos of video- or frame-level records, which the user named by `flag`.

    Raises:
      UsageError: no file matches.
      RunError: damage, a label outside of 0..num_classes-1, a video twice, or no video with a label.
    """
    rows: dict[str, int] = {}
    labels: list[npt.NDArray[np.int64]] = []
    for where, record in contexts(pattern, flag):
        name = id_text(record.id())
        if rows.setdefault(name, len(rows)) < len(labels):
            raise RunError(f"{where}: video {name} is there twice.")
        feature = record.context.get("labels")
        labels.append(_labels(feature.values() if feature else [], num_classes, f"{where}: video {name}"))
    splits = np.cumsum([0, *map(len, labels)])
    if not splits[-1]:
        raise RunError(f"{pattern} holds no label: there is nothing to score by.")
    return VideoLabels(rows, splits, np.concatenate(labels))


def _labels(values: record_reader.Values, num_classes: int, where: str) -> npt.NDArray[np.int64]:
    found = np.unique(np.array(values, np.int64))
    if len(found) and not 0 <= found[0] <= found[-1] < num_classes:
        raise RunError(
            f"{where} has a label outside of 0..{num_classes - 1} ({found[0]} to {found[-1]}); "
            "check --num_classes."
        )
    return found


def ratings(pattern: str) -> Ratings:
    """The ratings in segment records.

    Raises:
      UsageError: no file matches.
      RunError: damage, lists of unequal length, a rating that cannot be, or no rating at all.
    """
    segments: list[bytes] = []
    pairs: list[tuple[float, float]] = []
    for where, record in contexts(pattern):
        starts, classes, scores = (
            record.context[name].values() if name in record.context else [] for name in _LISTS
        )
        if not len(starts) == len(classes) == len(scores):
            raise RunError(
                f"{where}: {len(starts)} {_LISTS[0]}, {len(classes)} {_LISTS[1]} and {len(scores)} "
                f"{_LISTS[2]}; they must be as many."
            )
        _check_ratings(starts, classes, scores, where)
        name = video_name(record.id())
        segments += [b"%s:%d" % (name, int(start)) for start in starts]
        pairs += zip(classes, scores, strict=True)  # type: ignore[arg-type]
    if not segments:
        raise RunError(f"{pattern} holds no rated segment; name the segment-level records of a rated split.")
    table = np.array(pairs, np.float64)
    return Ratings(segments, table[:, 0].astype(np.int64), table[:, 1])


def _check_ratings(
    starts: record_reader.Values, classes: record_reader.Values, scores: record_reader.Values, where: str
) -> None:
    for values, name, low, high in (
        (starts, "segment start", 0, _LATEST),
        (classes, "segment label", 0, _LATEST),
        (scores, "segment score", 0, 1),
    ):
        expected = "0 to 1" if high == 1 else "a whole number from 0"
        for value in values:
            if isinstance(value, bytes) or not low <= value <= high:
                raise RunError(f"{where}: a {name} is {value!r}; expected {expected}.")
