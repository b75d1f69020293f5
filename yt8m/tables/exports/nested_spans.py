"""JSON of videos that have their spans inside: `{"id": "a", "spans": [{"label": "weld", "start": 12.4, "end": 31}]}`.

Objects `{id: spans}` and `{id: {..., "spans": spans}}` are read too. A span has a start and an end, or a length, by the
names of its keys, or both in a list, as in `"segment": [12.4, 31.0]`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from yt8m.tables.sources.source import MemorySource
from yt8m.tables.words import normalized, word_set
from yt8m.tables.words.meanings import meaning_of, plain_meaning
from yt8m.tables.words.time_columns import DURATION, END, START, meaning_of_span

_Row = Mapping[str, Any]
KEY = "key"  # the column of the ids of an object {id: spans}
_SPANS = "spans"
_PAIRS = word_set("segment interval span time times timestamp timestamps range")


def from_videos(
    path: str, videos: Sequence[_Row], hints: Mapping[str, str] | None = None, form: str = "JSON"
) -> MemorySource | None:
    """The rows of objects of videos, of which one key holds the spans; None for other objects."""
    keys = [key for key in dict.fromkeys(key for video in videos for key in video) if _holds_spans(key, videos)]
    if len(keys) != 1:
        return None
    (key,) = keys
    spans = [[_with_times(span) for span in video.get(key) or ()] for video in videos]
    outer = [name for name in dict.fromkeys(name for video in videos for name in video) if _is_plain(name, key, videos)]
    inner = list(dict.fromkeys(name for of_video in spans for span in of_video for name in span))
    labels, video_id = _name_of_labels(inner), (hints or {}).get("id") or _name_of_id(outer, videos)
    needed = [name for name in inner if name == labels or _meaning(name)]
    others = [name for name in inner if name not in outer and not (video_id and _means(name, "id"))]
    inner = [name for name in inner if name in needed or name in others]
    outer = [name for name in outer if name not in inner]
    columns_of = {"id": video_id, "labels": labels}
    hints = {**(hints or {}), **{meaning: name for meaning, name in columns_of.items() if name}}
    source = MemorySource(path, _by_video(videos, spans, outer, labels), f"{form}, labels of whole videos", hints)
    flat = MemorySource(path, _by_span(videos, spans, outer, inner), f"{form}, spans of each video", hints)
    flat.places = [
        f"span {number} of video {place}"
        for place, of_video in enumerate(spans, 1)
        for number, _ in enumerate(of_video or [{}], 1)
    ]
    return source.with_spans(flat)


def _is_plain(name: str, key: str, videos: Sequence[_Row]) -> bool:
    """Whether a key of videos holds texts and numbers."""
    return name != key and not any(isinstance(video.get(name), list | dict) for video in videos)


def _means(name: str, meaning: str) -> bool:
    return plain_meaning(name) == meaning


def _name_of_id(names: Sequence[str], videos: Sequence[_Row]) -> str:
    """The key that names each video once; empty if there is none."""
    likely = [name for name in names if _means(name, "id")]
    likely += [name for name in names if normalized(name) in ("name", "title")]
    return next((name for name in likely if len({str(video.get(name)) for video in videos}) == len(videos)), "")


def from_object(path: str, value: _Row) -> MemorySource | None:
    """The rows of an object {id: spans}, or of {id: a video with its spans}; None for other objects."""
    if all(isinstance(item, list) for item in value.values()):
        if any(_names_its_video(span) for spans in value.values() for span in spans if isinstance(span, Mapping)):
            return None
        videos = [{KEY: name, _SPANS: spans} for name, spans in value.items()]
        return from_videos(path, videos, {"id": KEY}) if len(videos) > 1 else None
    if value and all(isinstance(item, Mapping) for item in value.values()):
        return from_videos(path, [{KEY: name, **item} for name, item in value.items()], {"id": KEY})
    return None


def _holds_spans(key: str, videos: Sequence[_Row]) -> bool:
    """Whether a key of videos holds lists of spans."""
    lists = [video.get(key) or [] for video in videos]
    if not all(isinstance(items, list) for items in lists):
        return False
    items = [item for items in lists for item in items]
    return bool(items) and all(isinstance(item, Mapping) and _is_span(item) for item in items)


def _is_span(item: _Row) -> bool:
    item = _with_times(item)
    meanings = [_meaning(name) for name in item]
    return START in meanings and END in meanings


def _meaning(name: str) -> str:
    """`start`, `end`, or another text for a key of a span."""
    return END if (meaning := meaning_of_span(name)) == DURATION else meaning


def _with_times(item: _Row) -> dict[str, Any]:
    """A span whose times stand in two cells."""
    cells = dict(item)
    for name, cell in item.items():
        if normalized(name) in _PAIRS and isinstance(cell, list) and len(cell) == 2:
            del cells[name]
            cells |= {START: cell[0], END: cell[1]}
    return cells


def _names_its_video(span: _Row) -> bool:
    return any(_means(name, "id") and normalized(name) != "id" for name in span)


def _name_of_labels(names: Sequence[str]) -> str:
    """The key of spans that holds their classes; empty if there is none."""
    ranked = [(meaning[1], name) for name in names if (meaning := meaning_of(name)) and meaning[0] == "labels"]
    return min(ranked, default=(0, ""))[1]


def _by_video(
    videos: Sequence[_Row], spans: Sequence[Sequence[_Row]], outer: Sequence[str], labels: str
) -> dict[str, list[Any]]:
    """{column: cells} of rows that are videos, with the classes of their spans."""
    cells = {name: [video.get(name) for video in videos] for name in outer}
    if labels:
        cells[labels] = [list(dict.fromkeys(_classes(of_video, labels))) for of_video in spans]
    return cells


def _classes(spans: Sequence[_Row], labels: str) -> list[Any]:
    cells = [span.get(labels) for span in spans]
    return [name for cell in cells for name in (cell if isinstance(cell, list) else [cell]) if name not in (None, "")]


def _by_span(
    videos: Sequence[_Row], spans: Sequence[Sequence[_Row]], outer: Sequence[str], inner: Sequence[str]
) -> dict[str, list[Any]]:
    """{column: cells} of rows that are spans; a video without a span has a row without times."""
    rows = [(video, span) for video, of_video in zip(videos, spans, strict=True) for span in of_video or [{}]]
    cells = {name: [video.get(name) for video, _ in rows] for name in outer}
    return cells | {name: [span.get(name) for _, span in rows] for name in inner}
