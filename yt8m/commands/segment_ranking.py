"""The best segments of each class out of a stream of any length, in bounded memory.

A kept entry is one uint64: the score, best first, above the segment's number in the stream. The order is
therefore total (of equal scores the earlier segment is better), and what is kept does not depend on how the
stream was cut into batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import add

import numpy as np
import numpy.typing as npt

from yt8m.errors import RunError
from yt8m.eval_util.arrays import best_first
from yt8m.records.prediction_files import video_name

Keys = npt.NDArray[np.uint64]

_BLOCK = 4096  # segments that are gathered before the classes are looked at one by one
_NUMBER = np.uint64((1 << 32) - 1)
_SLACK = 8  # room for an eighth more than is kept, so that sorting out is rare


class SegmentRanking:
    """Ranks segments by class.

    Memory: 9 bytes for each class and kept segment (4 while all segments are kept), 16 kB a class for what
    waits, and the videos' ids; nothing else grows with the stream.

    Args:
      classes: of the columns of the scores.
      most: segments kept of each class.
      segment_size: seconds between two segments of a video.
    """

    def __init__(self, classes: Sequence[int], most: int = 100_000, segment_size: int = 5) -> None:
        self.classes = list(classes)
        self.most, self.segment_size = most, segment_size
        self._settled = 0
        self._room = most + max(most // _SLACK, _BLOCK)
        # The system gives memory to what is written, so short streams stay small in long rows.
        self._keys = [np.empty(self._room, np.uint64) for _ in self.classes]
        self._fill = [0] * len(self.classes)
        # At first every segment is kept: a row then holds bare scores, and their places are the numbers.
        self._is_bare = True
        self._least = [-np.inf] * len(self.classes)
        # What waits, a row a class, so that each is read in one go; one array for the whole stream, since the
        # system hands out fresh memory slowly.
        self._waiting = np.empty((len(self.classes), _BLOCK), np.float32)
        self._waiting_rows = 0
        self._videos: list[bytes] = []
        self._first: list[int] = []

    @property
    def count(self) -> int:
        """Segments that were added."""
        return self._settled + self._waiting_rows

    def add(self, segments: Sequence[bytes], scores: npt.NDArray[np.float32]) -> None:
        """Adds segments in the order of their videos.

        Args:
          segments: `video:start`; those of a video follow one another from start 0.
          scores: float32 [B, C]; -inf where a class is not to list the segment.

        Raises:
          RunError: a score is NaN, or an id is empty.
        """
        if np.isnan(scores.max(initial=-np.inf)):
            raise RunError("the model's predictions hold NaN: its training diverged; nothing was written.")
        before = self.count
        for place, name in enumerate(segments):
            if name.endswith(b":0"):
                self._videos.append(_named(name[:-2]))
                self._first.append(before + place)
        while len(scores):
            start = self._waiting_rows
            part, scores = scores[: _BLOCK - start], scores[_BLOCK - start :]
            self._waiting[:, start : start + len(part)] = part.T
            self._waiting_rows += len(part)
            if self._waiting_rows == _BLOCK:
                self._settle()

    def lines(self) -> Iterator[tuple[int, list[bytes]]]:
        """(class, its segments from the best) by ascending class, of all that was added."""
        is_named_once = len(set(self._videos)) == len(self._videos)
        for number, names, _ in self.scored_lines():
            yield number, names if is_named_once else list(dict.fromkeys(names))

    def scored_lines(self) -> Iterator[tuple[int, list[bytes], Keys]]:
        """As `lines`, with the upper half of each segment's key; a video that came twice is listed twice."""
        self._settle()
        self._number_all()
        first, videos = np.array(self._first, np.int64), np.array(self._videos, object)
        for place in np.argsort(self.classes, kind="stable").tolist():
            kept = np.sort(self._keys[place][: self._fill[place]])[: self.most]
            numbers = (kept & _NUMBER).astype(np.int64)
            video = np.searchsorted(first, numbers, side="right") - 1
            names = list(map(add, videos[video].tolist(), self._suffixes(numbers, first, video)))
            yield self.classes[place], names, kept >> np.uint64(32)

    def _suffixes(
        self, numbers: npt.NDArray[np.int64], first: npt.NDArray[np.int64], video: npt.NDArray[np.int64]
    ) -> list[bytes]:
        """`:start` of each segment, made once for each start there is."""
        places = numbers - first[video] if len(numbers) else numbers
        made = [b":%d" % (place * self.segment_size) for place in range(int(places.max(initial=0)) + 1)]
        found: list[bytes] = np.array(made, object)[places].tolist()
        return found

    def _settle(self) -> None:
        """Sorts what waits into the classes."""
        if self._is_bare and self._settled + self._waiting_rows > self._room:
            self._number_all()
        for place, column in enumerate(self._waiting[:, : self._waiting_rows]):
            if self._is_bare:
                self._bare(place)[self._settled : self._settled + len(column)] = column
            else:
                self._insert(place, column, self._settled)
        self._settled += self._waiting_rows
        self._waiting_rows = 0

    def _bare(self, place: int) -> npt.NDArray[np.float32]:
        return self._keys[place].view(np.float32)

    def _number_all(self) -> None:
        """Makes keys of bare scores."""
        if self._is_bare:
            self._is_bare = False
            for place in range(len(self.classes)):
                self._insert(place, self._bare(place)[: self._settled].copy(), 0)

    def _insert(self, place: int, scores: npt.NDArray[np.float32], start: int) -> None:
        """Takes those of `scores`, of the segments from number `start` on, that may be kept."""
        # Of equal scores the earlier segment stays, so only better ones come in.
        found = np.flatnonzero(scores > self._least[place])
        fill = self._fill[place]
        if fill + len(found) > self._room:
            fill = self._keep_best(place, fill)
        end = fill + len(found)
        self._keys[place][fill:end] = _keys(scores[found], found + start)
        self._fill[place] = end
        if self._least[place] == -np.inf and end >= self.most:
            self._fill[place] = self._keep_best(place, end)

    def _keep_best(self, place: int, fill: int) -> int:
        """Cuts a class down to its best `most` entries; returns how many it has."""
        kept = self._keys[place][:fill]
        if fill > self.most:
            kept.partition(self.most - 1)
        fill = min(fill, self.most)
        self._least[place] = _score(kept[:fill].max())
        return fill


def _keys(scores: npt.NDArray[np.float32], numbers: npt.NDArray[np.int64]) -> Keys:
    upper = best_first(scores).astype(np.uint64) << np.uint64(32)
    return np.asarray(upper | numbers.astype(np.uint64), np.uint64)


def _score(key: np.uint64) -> float:
    """The score in a key: `best_first` undoes itself."""
    bits = np.array([key >> np.uint64(32)], np.uint64).astype(np.uint32).view(np.int32)
    negative = bits >> 31
    return float(np.asarray(bits ^ (~negative & 0x7FFF_FFFF)).view(np.float32)[0])


def _named(video_id: bytes) -> bytes:
    if not video_id:
        raise RunError("a video has an empty id, so its segments cannot be listed. Give it an id in the records.")
    return video_name(video_id)
