"""AVA's rows: `video,timestamp,x1,y1,x2,y2,action_id,person_id`, a row for each action of a person in a second.

They are published without a header. The labels are those of the whole video, or each row is a span of one second.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from yt8m.tables.sources.csv_source import CsvSource
from yt8m.tables.sources.rewritten import RewrittenSource, read_all
from yt8m.tables.sources.source import Source
from yt8m.tables.words import normalized, words
from yt8m.tables.words.meanings import JOIN, is_of_labels
from yt8m.tables.words.time_columns import END, START, meaning_of_span

_HEADER = words("video_id timestamp x1 y1 x2 y2 action_id person_id")
_IDS, _ACTIONS = frozenset(["video", "video_id"]), frozenset(["action_id", "action"])
_SHARE, _NUMBER = re.compile(r"[01](?:\.\d+)?|\.\d+", re.ASCII), re.compile(r"\d+", re.ASCII)
_TIME = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_SAMPLE = 200
_SECOND = 1.0  # AVA was labelled once a second


class _Columns(NamedTuple):
    """The columns of AVA that are taken, and the others that stay beside them."""

    video: str
    time: str
    action: str
    others: Sequence[str]


def without_boxes(source: Source, are_spans: bool, chosen: Collection[str] = ()) -> Source:
    """Rows of AVA without boxes and people, and with ends if they are spans; another source as it is.

    Args:
      chosen: what the user says with --columns, such as `split=split`.
    """
    columns = _columns_of(source)
    columns_of = {meaning.strip(): names.split(JOIN) for meaning, _, names in (word.partition("=") for word in chosen)}
    named_columns = {name for names in columns_of.values() for name in names}
    if not columns or not named_columns.issubset([columns.video, columns.action, *columns.others]):
        return source
    cells, bad = read_all(source, [columns.video, columns.time, columns.action, *columns.others])
    hints = {} if "id" in columns_of else {"id": columns.video}
    hints |= {} if "labels" in columns_of or any(map(is_of_labels, columns.others)) else {"labels": columns.action}
    times = cells.pop(columns.time)
    if not are_spans:
        keys = [column for name, column in cells.items() if name not in columns_of.get("unused", ())]
        firsts = {row: number for number, row in reversed(list(enumerate(zip(*keys, strict=True))))}
        rows = sorted(firsts.values())
        kept_cells = {name: [column[row] for row in rows] for name, column in cells.items()}
        result = RewrittenSource(source, kept_cells, [row + 1 for row in rows], bad, "AVA, whose boxes are left out")
        result.hints = hints
        return result
    ends = [float(cell) + _SECOND if _TIME.fullmatch(str(cell).strip()) else cell for cell in times]
    remark = "AVA, a second from each timestamp on, whose boxes are left out"
    result = RewrittenSource(source, {**cells, START: times, END: ends}, range(1, len(ends) + 1), bad, remark)
    result.hints = {**hints, START: START, END: END}
    return result


def _columns_of(source: Source) -> _Columns | None:
    """The columns of AVA; none if a table is no such, or says itself where spans start or end."""
    if not isinstance(source, CsvSource):
        return None
    columns = source.columns
    if source.dialect.is_headerless:
        has_shape = len(columns) in (len(_HEADER) - 1, len(_HEADER)) and _have_shape(source)
        return _Columns(columns[0], columns[1], columns[6], ()) if has_shape else None
    names = {normalized(name): name for name in columns}
    (ids, actions) = ([name for word, name in names.items() if word in usual] for usual in (_IDS, _ACTIONS))
    if not len(ids) == len(actions) == 1 or not names.keys() >= set(_HEADER[1:6]):
        return None
    left_out = {ids[0], actions[0], *(names[word] for word in _HEADER if word in names)}
    others = [name for name in columns if name not in left_out]
    return None if any(map(meaning_of_span, others)) else _Columns(ids[0], names[_HEADER[1]], actions[0], others)


def _have_shape(source: Source) -> bool:
    """Whether rows without a header have a video, a time, a box in shares of the picture, and numbers."""
    for rows in source.batches(_SAMPLE, 0, source.columns):
        lines = list(zip(*(rows.cells[name] for name in source.columns), strict=True))
        boxes = [line for line in lines if any(line[2:6])]
        if len(boxes) < 2 or not all(map(_is_time_and_box, boxes)):
            return False
        # Five shares that grow may be anything.
        return any("." in line[2] for line in boxes) and any(float(line[1]) > 1 for line in boxes)
    return False


def _is_time_and_box(line: Sequence[str]) -> bool:
    if not (
        _TIME.fullmatch(line[1]) and all(map(_SHARE.fullmatch, line[2:6])) and all(map(_NUMBER.fullmatch, line[6:]))
    ):
        return False
    x1, y1, x2, y2 = map(float, line[2:6])
    return x1 < x2 and y1 < y2
