"""Several prediction files read side by side, video by video, in bounded memory."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from yt8m import storage
from yt8m.errors import RunError
from yt8m.tools import prediction_lists, text_lines
from yt8m.tools.prediction_lists import Row


def side_by_side(paths: Sequence[str], num_classes: int) -> Iterator[list[Row]]:
    """The rows of each video in all files, in the order of the first one.

    Files in the same order are read through once. Of a file in another order the place of each row that was
    passed over is kept, not the row.

    Raises:
      RunError: a line is damaged, or the files are not of the same videos; the line or video is named.
    """
    with contextlib.ExitStack() as stack:
        others = [
            _Seeking(path, stack.enter_context(storage.open_read(path)), num_classes) for path in paths[1:]
        ]
        for row in prediction_lists.read(paths[0], num_classes):
            yield [row, *(other.find(row) for other in others)]
        for other in others:
            other.refuse_rest(paths[0])


class _Seeking:
    """A file whose rows are asked for by video.

    Args:
      path: of the file.
      file: it, open.
      num_classes: C.
    """

    def __init__(self, path: str, file: BinaryIO, num_classes: int) -> None:
        self._path, self._file, self._num_classes = path, file, num_classes
        self._number = self._end = 0
        self._passed: dict[str, tuple[int, int]] = {}  # video: number and place of its line

    def find(self, wanted: Row) -> Row:
        """The row of the same video."""
        if wanted.video_id in self._passed:
            number, place = self._passed.pop(wanted.video_id)
            self._file.seek(place)
            line = text_lines.checked(self._path, number, self._file.readline())
            self._file.seek(self._end)
            return prediction_lists.parse(line, self._num_classes)
        for video_id, line, place in self._on():
            if video_id == wanted.video_id:
                return prediction_lists.parse(line, self._num_classes)
            if self._passed.setdefault(video_id, (line.number, place)) != (line.number, place):
                line.refuse(f"video {video_id!r} stands in an earlier line already.")
        raise RunError(
            f"{self._path} has no video {wanted.video_id!r}, which {wanted.where}, has; give predictions for "
            "the same files."
        )

    def refuse_rest(self, first: str) -> None:
        """Raises `RunError` where there are videos that nobody asked for, or that stand there again."""
        passed = ((name, number) for name, (number, _) in self._passed.items())
        unread = ((name, line.number) for name, line, _ in self._on())
        rest = next(itertools.chain(passed, unread), None)
        if rest is None:
            return
        name, number = rest
        earlier = self._first_line_of(name)
        if earlier < number:
            raise RunError(f"{self._path}, line {number}: video {name!r} stands in line {earlier} already.")
        raise RunError(
            f"{self._path}, line {number}: {first} has no video {name!r}; "
            "give predictions for the same files."
        )

    def _first_line_of(self, wanted: str) -> int:
        """From the beginning, since the lines of videos that were asked for are not kept."""
        self._file.seek(0)
        self._number = self._end = 0
        return next(line.number for video_id, line, _ in self._on() if video_id == wanted)

    def _on(self) -> Iterator[tuple[str, text_lines.Line, int]]:
        """(video, line, place) of the rows not yet seen."""
        while text := self._file.readline():
            place, self._end = self._end, self._end + len(text)
            self._number += 1
            line = text_lines.checked(self._path, self._number, text)
            if line.text and not (self._number == 1 and line.text == prediction_lists.HEADER):
                yield prediction_lists.fields(line)[0], line, place
