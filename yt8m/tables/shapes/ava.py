"""AVA's rows: `video,timestamp,x1,y1,x2,y2,action_id,person_id`, a row for each action of a person in a second.

They are published without a header. The labels are those of the whole video, or each row is a span of one second.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from yt8m.tables.sources.csv_source import CsvSource
from yt8m.tables.sources.rewritten import RewrittenSource, read_all
from yt8m.tables.sources.source import Source
from yt8m.tables.words import normalized, words
from yt8m.tables.words.time_columns import END, START

_HEADER = words("video_id timestamp x1 y1 x2 y2 action_id person_id")
_IDS, _ACTIONS = frozenset(["video", "video_id"]), frozenset(["action_id", "action"])
_SHARE, _NUMBER = re.compile(r"[01](?:\.\d+)?|\.\d+", re.ASCII), re.compile(r"\d+", re.ASCII)
_TIME = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_SAMPLE = 200
_SECOND = 1.0  # AVA was labelled once a second


def without_boxes(source: Source, are_spans: bool) -> Source:
    """Rows of AVA with what is taken of them, and with ends if they are spans; another source as it is."""
    names = _columns_of(source)
    if not names:
        return source
    video, time, action = names[0], names[1], names[6]
    cells, bad = read_all(source, [video, time, action])
    if not are_spans:
        firsts = {pair: row for row, pair in reversed(list(enumerate(zip(cells[video], cells[action], strict=True))))}
        rows = sorted(firsts.values())
        columns = {name: [cells[name][row] for row in rows] for name in (video, action)}
        result = RewrittenSource(source, columns, [row + 1 for row in rows], bad, "AVA, whose boxes are left out")
        result.hints = {"id": video, "labels": action}
        return result
    ends = [float(cell) + _SECOND if _TIME.fullmatch(str(cell).strip()) else cell for cell in cells[time]]
    columns = {video: cells[video], action: cells[action], START: cells[time], END: ends}
    remark = "AVA, a second from each timestamp on, whose boxes are left out"
    result = RewrittenSource(source, columns, range(1, len(ends) + 1), bad, remark)
    result.hints = {"id": video, "labels": action, START: START, END: END}
    return result


def _columns_of(source: Source) -> Sequence[str]:
    """The columns of AVA in their order; none if a table is no such."""
    if not isinstance(source, CsvSource):
        return ()
    if source.dialect.is_headerless:
        has_shape = len(source.columns) in (len(_HEADER) - 1, len(_HEADER)) and _have_shape(source)
        return source.columns if has_shape else ()
    names = {normalized(name): name for name in source.columns}
    (ids, actions) = ([name for word, name in names.items() if word in usual] for usual in (_IDS, _ACTIONS))
    middle = [names.get(word, "") for word in _HEADER[1:6]]
    is_whole = len(ids) == len(actions) == 1 and all(middle)
    return [ids[0], *middle, actions[0]] if is_whole else ()


def _have_shape(source: Source) -> bool:
    """Whether rows without a header have a video, a time, a box in shares of the picture, and numbers."""
    for rows in source.batches(_SAMPLE, 0, source.columns):
        lines = list(zip(*(rows.cells[name] for name in source.columns), strict=True))
        boxes = [line for line in lines if any(line[2:6])]
        return len(boxes) > 1 and all(map(_is_time_and_box, boxes)) and any("." in line[2] for line in boxes)
    return False


def _is_time_and_box(line: Sequence[str]) -> bool:
    if not (
        _TIME.fullmatch(line[1]) and all(map(_SHARE.fullmatch, line[2:6])) and all(map(_NUMBER.fullmatch, line[6:]))
    ):
        return False
    x1, y1, x2, y2 = map(float, line[2:6])
    return x1 < x2 and y1 < y2
