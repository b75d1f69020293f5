"""Ranks the best segments of each class from a stream of scores of any length, in bounded memory, and writes them.

A segment model sees only five seconds, so many classes seem possible; a video-level model sees the whole video. So, as
the 2019 winners did, predictions for whole videos can give the candidate classes of each video. A segment is then
ranked only for the candidate classes of its video.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import add
from typing import IO, Any

import numpy as np

from yt8m.errors import RunError
from yt8m.eval_util.arrays import Floats32, Keys, pack_numbers, scores_of_ranks
from yt8m.records import prediction_files
from yt8m.records.prediction_files import SEGMENTS_HEADER, video_name
from yt8m.records.shards import id_text

NO_SEGMENT = "the data hold no frame, so there is no segment to rank; name records with frames."

_BLOCK = 4096  # number of segments that are gathered before they are inserted class by class
_NUMBER_BITS = np.uint64((1 << 32) - 1)  # the bits of an entry that hold the number of its segment
_SLACK = 8  # the row of a class has room for at least 1/8 more entries than are kept, so it is rarely cut down


class SegmentRanking:
    """Keeps the best segments of each class from a stream of any length, in bounded memory.

    There is a row of entries for each class. A kept entry is one uint64. The upper 32 bits are the score, as a key that
    is smaller for a better score. The lower 32 bits are the number of the segment in the stream. So no two entries tie
    (of equal scores the earlier segment is better), and the result does not depend on how the stream was cut into
    batches.

    Memory: 9 bytes per class and kept segment (4 while all segments are kept), 16 kB per class for the gathered
    segments, and the ids of the videos. Only the ids grow with the stream.

    Args:
      most: largest number of segments kept of each class.
      segment_size: seconds from the start of one segment of a video to the start of the next.
    """

    def __init__(self, classes: Sequence[int], most: int = 100_000, segment_size: int = 5) -> None:
        self.classes = list(classes)
        self.most, self.segment_size = most, segment_size
        self._stored = 0
        self._room = most + max(most // _SLACK, _BLOCK)
        # The system allocates only pages that are written, so long rows cost little in short streams.
        self._keys = [np.empty(self._room, np.uint64) for _ in self.classes]
        self._fill = [0] * len(self.classes)
        # While every segment is kept, a row holds only float32 scores; the index of a score is its segment number.
        self._holds_scores = True
        self._least = [-np.inf] * len(self.classes)  # for each row, the score that a new segment must exceed
        # The gathered scores. One row per class, so that the scores of a class are contiguous. The array is reused for
        # the whole stream, because new memory is slow.
        self._waiting = np.empty((len(self.classes), _BLOCK), np.float32)
        self._waiting_rows = 0
        # The id of each video in the order of the stream, and the number of its first segment.
        self._videos: list[bytes] = []
        self._first: list[int] = []

    @property
    def count(self) -> int:
        """Number of segments that were added."""
        return self._stored + self._waiting_rows

    def add(self, segments: Sequence[bytes], scores: Floats32) -> None:
        """Adds B segments, video after video.

        Args:
          segments: [B], names `video:start`; the segments of a video are consecutive and begin with start 0.
          scores: float32 [B, C], a column for each of `classes`; -inf excludes a segment from the list of a class.
        """
        before = self.count
        for place, name in enumerate(segments):
            if name.endswith(b":0"):
                if name == b":0":
                    raise RunError(
                        "a video has an empty id, so its segments cannot be listed. Give it an id in the records."
                    )
                self._videos.append(video_name(name[:-2]))
                self._first.append(before + place)
        while len(scores):
            start = self._waiting_rows
            part, scores = scores[: _BLOCK - start], scores[_BLOCK - start :]
            self._waiting[:, start : start + len(part)] = part.T
            self._waiting_rows += len(part)
            if self._waiting_rows == _BLOCK:
                self._store_waiting()

    def lines(self) -> Iterator[tuple[int, list[bytes]]]:
        """Yields (class, its segments, best first) by ascending class; lists a segment once if it was added twice."""
        is_named_once = len(set(self._videos)) == len(self._videos)
        for number, names, _ in self.scored_lines():
            yield number, names if is_named_once else list(dict.fromkeys(names))

    def scored_lines(self) -> Iterator[tuple[int, list[bytes], Keys]]:
        """Yields (class, its segments, their score keys), best first, by ascending class.

        A score key is `arrays.ranks_of_scores` of the score. Segments of a video that was added twice are listed twice.
        """
        self._store_waiting()
        self._make_keys()
        first, videos = np.array(self._first, np.int64), np.array(self._videos, object)
        for row in np.argsort(self.classes, kind="stable").tolist():
            best_keys = np.sort(self._keys[row][: self._fill[row]])[: self.most]
            numbers = (best_keys & _NUMBER_BITS).astype(np.int64)
            video = np.searchsorted(first, numbers, side="right") - 1
            # Each text `:start` is made only once.
            numbers_in_video = numbers - first[video] if len(numbers) else numbers
            starts = [
                b":%d" % (number * self.segment_size) for number in range(int(numbers_in_video.max(initial=0)) + 1)
            ]
            names = list(map(add, videos[video].tolist(), np.array(starts, object)[numbers_in_video].tolist()))
            yield self.classes[row], names, best_keys >> np.uint64(32)

    def _store_waiting(self) -> None:
        """Moves the gathered scores into the rows of their classes."""
        if self._holds_scores and self._stored + self._waiting_rows > self._room:
            self._make_keys()
        for row, column in enumerate(self._waiting[:, : self._waiting_rows]):
            if self._holds_scores:
                self._scores_of(row)[self._stored : self._stored + len(column)] = column
            else:
                self._insert(row, column, self._stored)
        self._stored += self._waiting_rows
        self._waiting_rows = 0

    def _scores_of(self, row: int) -> Floats32:
        """The row of a class, seen as float32 scores: while all segments are kept, it holds scores instead of keys."""
        return self._keys[row].view(np.float32)

    def _make_keys(self) -> None:
        """Converts rows of scores into rows of keys; does nothing after the first call."""
        if self._holds_scores:
            self._holds_scores = False
            for row in range(len(self.classes)):
                self._insert(row, self._scores_of(row)[: self._stored].copy(), 0)

    def _insert(self, row: int, scores: Floats32, start: int) -> None:
        """Adds to the row of a class the scores that may be among its best."""
        # If scores are equal, the earlier segment is kept, so a new one must be strictly better.
        candidates = np.flatnonzero(scores > self._least[row])
        fill = self._fill[row]
        if fill + len(candidates) > self._room:
            fill = self._keep_best(row, fill)
        end = fill + len(candidates)
        self._keys[row][fill:end] = pack_numbers(scores[candidates], candidates + start)
        self._fill[row] = end
        if self._least[row] == -np.inf and end >= self.most:
            self._fill[row] = self._keep_best(row, end)

    def _keep_best(self, row: int, fill: int) -> int:
        """Keeps only the best `most` entries of a class."""
        entries = self._keys[row][:fill]
        if fill > self.most:
            entries.partition(self.most - 1)
        fill = min(fill, self.most)
        worst = entries[:fill].max(keepdims=True) >> np.uint64(32)
        self._least[row] = float(scores_of_ranks(worst.astype(np.uint32))[0])
        return fill


class WindowMeans:
    """Averages the scores of the windows of each segment.

    A window is a stretch of the video that has the length of the segment and is shifted a little against it. The
    windows of a segment follow each other in the stream, perhaps in different batches.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._names: list[bytes] = []
        self._scores: Floats32 | None = None

    def join(self, names: Sequence[bytes], scores: Floats32) -> tuple[list[bytes], Floats32]:
        """Adds a batch of B windows. The windows of an unfinished segment are kept until the next batch.

        Args:
          names: [B], the name of the segment of each window.
          scores: float32 [B, C], of each window.

        Returns:
          The names of the S segments whose last window is in this batch, and their mean scores, float32 [S, C].
        """
        if self._count == 1:
            return list(names), scores
        names = [*self._names, *names]
        scores = scores if self._scores is None else np.concatenate([self._scores, scores])
        finished = len(names) - len(names) % self._count  # number of windows of finished segments
        self._names, self._scores = names[finished:], scores[finished:].copy()
        means = scores[:finished].reshape(-1, self._count, scores.shape[1]).mean(axis=1, dtype=np.float32)
        return names[: finished : self._count], means


class Candidates:
    """The candidate classes of each video, read from a prediction file (`VideoId,LabelConfidencePairs`).

    Memory: one bit per video and listed class, so 125 bytes per video for 1000 classes.

    Args:
      classes: the S listed classes, in the order of the columns of the scores.
    """

    def __init__(self, path: str, classes: Sequence[int], num_classes: int) -> None:
        self._path, self._count = path, len(classes)
        column = np.full(num_classes, len(classes))
        column[list(classes)] = np.arange(len(classes))
        self._rows: dict[str, int] = {}
        packed: list[bytes] = []
        for row in prediction_files.read_predictions(path, num_classes):
            mask = np.zeros(len(classes) + 1, np.bool_)  # the last column is for classes that are not listed
            mask[column[row.classes]] = True
            self._rows[row.video_id] = len(packed)
            packed.append(np.packbits(mask[:-1]).tobytes())
        self._allowed = np.frombuffer(b"".join(packed), np.uint8).reshape(len(packed), -1)

    def among(self, segments: Sequence[bytes], scores: np.ndarray) -> np.ndarray:
        """A copy of the scores, with -inf for classes that are not candidates of the segment's video.

        Args:
          segments: [B], names `video:start`.
          scores: float32 [B, S], a column for each of the listed classes.
        """
        videos = [id_text(segment.rpartition(b":")[0]) for segment in segments]
        for video in videos:
            if video not in self._rows:
                raise RunError(
                    f"{self._path} has no predictions for video {video}; "
                    "predict for the same files first, without --segment_labels."
                )
        allowed = np.unpackbits(self._allowed[[self._rows[video] for video in videos]], axis=1, count=self._count)
        return np.where(allowed > 0, scores, np.float32(-np.inf))


def write_lists(file: IO[Any], ranking: SegmentRanking) -> None:
    """Writes a header and one line per class to an open binary file."""
    if not ranking.count:
        raise RunError(NO_SEGMENT)
    file.write(SEGMENTS_HEADER + b"\n")
    for number, segments in ranking.lines():
        file.write(format_line(number, segments))


def format_line(number: int, segments: Sequence[bytes]) -> bytes:
    """The line of class `number`, with its line end: the segments are written in the given order."""
    return b"%d,%s\n" % (number, b" ".join(segments))
