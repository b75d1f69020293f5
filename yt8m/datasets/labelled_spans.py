"""`yt8m inspect --spans=FILE`: the spans that people have marked, read from records and written for other programs."""

from __future__ import annotations

import os
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from yt8m.errors import RunError, UsageError
from yt8m.eval_util.span_joining import runs_of
from yt8m.records import shards
from yt8m.records.deep_check import label_problems, rating_problems
from yt8m.records.opened_data import OpenedData
from yt8m.records.rated_cells import Cells
from yt8m.records.shards import SEGMENT_SIZE, Record
from yt8m.records.span_files import FoundSpan, Seen, SpanFile, VideoSpans


def write(file: SpanFile, data: OpenedData, num_classes: int | None) -> None:
    """Writes the spans of all videos; neighbouring cells that show a class are one span."""
    file.check()
    if num_classes is None:
        raise UsageError(f"{data.pattern}: nothing says how many classes there are; name the number by --num_classes.")
    described = data.format.format if data.format else None
    size = (described.segment_size if described else None) or SEGMENT_SIZE
    cells = Cells(size, (described.frames_per_second if described else None) or 1.0)
    names = data.vocabulary.shown(num_classes)
    file.write(list(_spans_of(data, cells, num_classes)), names)


def _spans_of(data: OpenedData, cells: Cells, num_classes: int) -> Iterator[VideoSpans]:
    for location, record, split in _records(data):
        for problem in (*rating_problems(record), *label_problems(record, num_classes)):
            raise RunError(f"{location}: {problem}.")
        count = max(map(len, record.lists.values()), default=0)
        if not count:
            raise RunError(f"{location} has no frames, so its spans have no times; name records of frames.")
        seconds = count / cells.per_second
        shown = cells.shown(record, count, num_classes)
        rated = cells.annotated(record, count, num_classes)
        denied = rated & ~shown & ~rated.all(axis=1, keepdims=True)
        yield VideoSpans(
            *(shards.id_text(record.id()), seconds, _joined(shown, cells, seconds), split),
            seen=_seen(cells, np.asarray(rated.all(axis=1)), count, shown),
            denied=_joined(denied, cells, seconds),
        )


def _joined(is_there: NDArray[np.bool_], cells: Cells, seconds: float) -> list[FoundSpan]:
    """The spans of the cells of a video, bool [cells, C], as a span for neighbouring cells of a class."""
    runs = zip(*(column.tolist() for column in runs_of(is_there)), strict=True)
    return sorted(
        FoundSpan(first * cells.seconds, min(last * cells.seconds, seconds), number) for number, first, last in runs
    )


def _seen(cells: Cells, is_rated: NDArray[np.bool_], count: int, shown: NDArray[np.bool_]) -> Seen:
    """Where people have rated every class in a record of `count` frames, whose cells show classes as `shown` says."""

    def times(is_there: NDArray[np.bool_]) -> list[tuple[float, float]]:
        _, firsts, lasts = runs_of(is_there[:, np.newaxis])
        ends = np.minimum(lasts * cells.seconds, count / cells.per_second)
        return list(zip((firsts * cells.seconds).tolist(), ends.tolist(), strict=True))

    return Seen(bool(is_rated.all()), times(is_rated), times(is_rated & ~np.asarray(shown.any(axis=1))))


def _records(data: OpenedData) -> Iterator[tuple[str, Record, str]]:
    """Yields (location, record, split) of each record."""
    path_of_folder = {os.path.dirname(path): path for path in data.files}
    split_of = {folder: data.of_files([path]).manifest.split for folder, path in path_of_folder.items()}
    for path in data.files:
        for number, payload in enumerate(shards.read_shard(path)):
            try:
                record = shards.parse(payload)
            except ValueError as error:
                raise shards.DamagedError(path, number, str(error)) from error
            yield f"{path}: record {number}", record, split_of[os.path.dirname(path)]
