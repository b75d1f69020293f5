"""Reads several prediction files in parallel, video by video, and aligns the scores of a video in one array."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from yt8m import storage
from yt8m.errors import RunError
from yt8m.records import prediction_files
from yt8m.records.prediction_files import PredictionRow, TextLine


def aligned(
    rows: Sequence[PredictionRow], by_rank: bool, top_k: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32]]:
    """(classes int32 [U] ascending, scores float32 [U, N]) of the classes that any of N files lists for a video.

    A class that a file does not list has the score 0 in that file. If `by_rank`, ranks replace the scores: the best
    class of a row has 1, the next 1 - 1 / top_k, and so on down to 0; equal scores are ranked by class.
    """
    classes = np.unique(np.concatenate([row.classes for row in rows]))
    scores = np.zeros((len(classes), len(rows)), np.float32)
    for column, row in enumerate(rows):
        values = row.scores
        if by_rank:
            ranks = np.empty(len(values), np.float32)
            ranks[np.lexsort((row.classes, -values))] = np.arange(len(values))
            values = np.maximum(1 - ranks / top_k, 0)
        scores[np.searchsorted(classes, row.classes), column] = values
    return classes, scores


def side_by_side(paths: Sequence[str], num_classes: int) -> Iterator[list[PredictionRow]]:
    """Yields the rows of each video, one from each file, in the order of the first file.

    A file in the same order is read once, from start to end. If a file is in another order, the offset of each row that
    was skipped is kept in memory, but not the row.

    Raises:
      RunError: a line is damaged, or the files list different videos; the message names the line or video.
    """
    with contextlib.ExitStack() as stack:
        others = [_OtherFile(path, stack.enter_context(storage.open_read(path)), num_classes) for path in paths[1:]]
        for row in prediction_files.read_predictions(paths[0], num_classes):
            yield [row, *(other.find(row) for other in others)]
        for other in others:
            other.refuse_rest(paths[0])


class _OtherFile:
    """A file whose rows are looked up by video.

    Args:
      path: path of the file.
      file: the open file.
      num_classes: number of classes.
    """

    def __init__(self, path: str, file: BinaryIO, num_classes: int) -> None:
        self._path, self._file, self._num_classes = path, file, num_classes
        self._passed: dict[str, tuple[int, int]] = {}  # {video: (line number, byte offset)} of the rows skipped so far
        self._lines = self._read()

    def find(self, wanted: PredictionRow) -> PredictionRow:
        """The row of the same video as `wanted`.

        Raises:
          RunError: the file does not have this video, or has one twice.
        """
        if wanted.video_id in self._passed:
            number, place = self._passed.pop(wanted.video_id)
            back = self._file.tell()
            self._file.seek(place)
            line = prediction_files.checked(self._path, number, self._file.readline())
            self._file.seek(back)
            return prediction_files.parse_prediction(line, self._num_classes)
        for video_id, line, place in self._lines:
            if video_id == wanted.video_id:
                return prediction_files.parse_prediction(line, self._num_classes)
            earlier, _ = self._passed.setdefault(video_id, (line.number, place))
            if earlier != line.number:
                line.refuse(f"video {video_id!r} has line {earlier} already; give each video one line.")
        raise RunError(
            f"{self._path} has no video {wanted.video_id!r}, which {wanted.where}, has; give predictions for "
            "the same files."
        )

    def refuse_rest(self, first: str) -> None:
        """Raises `RunError` if a row is left over: its video is not in the first file, or is repeated in this one."""
        passed = ((video_id, number) for video_id, (number, _) in self._passed.items())
        unread = ((video_id, line.number) for video_id, line, _ in self._lines)
        for video_id, number in itertools.chain(passed, unread):
            self._file.seek(0)  # read again: the line numbers of rows already returned are not kept
            earlier = next(line.number for name, line, _ in self._read() if name == video_id)
            if earlier < number:
                raise RunError(f"{self._path}, line {number}: video {video_id!r} has line {earlier} already.")
            raise RunError(
                f"{self._path}, line {number}: {first} has no video {video_id!r}; give predictions for the same files."
            )

    def _read(self) -> Iterator[tuple[str, TextLine, int]]:
        """Yields (video, line, byte offset) of each row. Callers that seek between rows must restore the position."""
        number, place = 0, 0
        while text := self._file.readline():
            number += 1
            line = prediction_files.checked(self._path, number, text)
            if line.text and not (number == 1 and line.text == prediction_files.PREDICTIONS_HEADER):
                yield prediction_files.fields(line)[0], line, place
            place += len(text)
