"""The spans of `yt8m relabel --labels`: what people have marked in videos, in place of the labels of cells.

If people have looked at parts of a video alone, as those of `yt8m select`, the labels of its other cells stay.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from yt8m.datasets.make_records.answer_tables import sound_batches
from yt8m.datasets.make_records.classes import WHOLE, Classes
from yt8m.datasets.make_records.span_cells import ClassSpan, Grid, RatedCells, number_spans
from yt8m.datasets.relabel.given_answers import GivenFile, NumberedLabels
from yt8m.errors import UsageError
from yt8m.records.shards import id_bytes, id_text
from yt8m.tables.understood import SPANS, TableFlags, UnderstoodTable, understand
from yt8m.tables.words.times import Span

_OTHER_FLAGS = re.compile("--(columns|rows|label_separator)")  # of `make-records --table`, which errors name

_OUTSIDE = {
    WHOLE: "a class is absent outside its spans (--annotated=whole)",
    SPANS: "the labels outside the spans stay (--annotated=spans)",
}


class FlagsOfSpans(Protocol):
    """Some of the options of spans; see `SpanFlags`."""

    @property
    def frame_rate(self) -> float | None:
        """How many frames are a second, if times count frames."""

    @property
    def annotated(self) -> str:
        """Which part of a video people have looked at; empty if the form of the file says it."""


class MarkedVideo(NamedTuple):
    """The spans in a video, which lasts some seconds by the file; 0 if the file does not say it."""

    spans: tuple[ClassSpan, ...]
    seconds: float


class GivenSpans(GivenFile[MarkedVideo]):
    """The spans in an export of Label Studio or a table. If the path is empty, there are none.

    Args:
      classes: those of the records, which the spans cannot add to.
      flags: how times count, and which part of a video people have looked at.
      grid: the grid of the cells of the records.

    Attributes:
      understood: how the file was understood, in one paragraph; empty without spans.
    """

    understood = ""

    def __init__(self, path: str, classes: Classes, flags: FlagsOfSpans, grid: Grid | None) -> None:
        self._grid = grid
        marked: dict[bytes, MarkedVideo] = {}
        if path and grid is not None:
            table = _open(path, flags.frame_rate or 0.0, classes)
            numbers, names = NumberedLabels(path, classes), set[str]()
            self._grid = grid._replace(annotated=flags.annotated or (SPANS if table.are_clips else WHOLE))
            self.understood = "; ".join([*table.describe(), _OUTSIDE[self._grid.annotated]])
            for video, spans, seconds in _videos(table):
                labels = {name for span in spans for name in (*span.labels, *span.denied)}
                of_labels = {name: numbers.class_of(name, id_text(video)) for name in sorted(labels)}
                marked[video] = MarkedVideo(number_spans(spans, of_labels), seconds)
                names |= labels
            table.refuse_combinations(names)
        super().__init__(path if grid is not None else "", marked)

    def cells_of(self, video: bytes, num_frames: int) -> tuple[RatedCells, Counter[str]] | None:
        """The cells of a video of some frames, and what is to be said of its spans; None if nobody has looked at it."""
        marked = self.by_video.get(video)
        if marked is None or self._grid is None:
            return None
        if problem := self._grid.wrong_length(marked.seconds, num_frames):
            raise UsageError(f"--labels={self.path}: of {id_text(video)[:60]!r} {problem}.")
        return self._grid.cells(marked.spans, num_frames)


def _open(path: str, frame_rate: float, classes: Classes) -> UnderstoodTable:
    names = frozenset(classes.vocabulary.names if classes.vocabulary else ())
    flags = TableFlags(vocabulary=names, can_have_spans=True, rows=SPANS, path_endings=(), frame_rate=frame_rate)
    try:
        return understand("--labels", path, flags)
    except UsageError as error:
        if not _OTHER_FLAGS.search(str(error)):
            raise
        raise UsageError(
            f"{error} These flags are for make-records; people have marked spans in the records, so --labels takes the "
            "export of tasks with <TimelineLabels>, or a table with the columns id, labels, start and end."
        ) from error


def _videos(table: UnderstoodTable) -> Iterator[tuple[bytes, Sequence[Span], float]]:
    """Yields the id of each video, its spans and its length."""
    for rows in sound_batches(table):
        for video, spans, seconds in zip(*(rows.cells[name] for name in ("id", "spans", "seconds")), strict=True):
            yield id_bytes(str(video).strip().encode("utf-8", "surrogateescape")), spans, seconds
