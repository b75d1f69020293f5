"""JSON of videos with their spans inside, in the shapes that people write."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from table_files import write_json

from yt8m.errors import UsageError
from yt8m.tables.understood import TableFlags, understand

_A = [{"label": "weld", "start": 12.5, "end": 31}, {"label": "cut", "start": 5, "end": 62.25}]
_PAIRED = [{"label": span["label"], "segment": [span["start"], span["end"]]} for span in _A]
_COUNTED = [
    {"id": number, "class": span["label"], "start_ms": span["start"] * 1000, "end_ms": span["end"] * 1000}
    for number, span in enumerate(_A)
]
_LENGTHS = [{"label": span["label"], "onset": span["start"], "duration": span["end"] - span["start"]} for span in _A]
_SHAPES = {
    "list": [{"id": "a", "spans": _A}, {"id": "b", "spans": []}],
    "no spans at all": [{"video": "a", "events": _A, "size": [2, 3]}, {"video": "b"}],
    "by id": {"a": _A, "b": []},
    "objects by id": {"a": {"annotations": _PAIRED, "fps": 30}, "b": {"annotations": None, "fps": 25}},
    "milliseconds": [{"id": "a", "annotations": _COUNTED}, {"id": "b", "annotations": []}],
    "lengths": {"videos": [{"name": "a", "actions": _LENGTHS}, {"name": "b", "actions": []}]},
    "several labels": [{"id": "a", "spans": [{**span, "label": [span["label"]]} for span in _A]}, {"id": "b"}],
}


def spans_of(path: pathlib.Path, **flags: Any) -> dict[str, list[tuple[Any, ...]]]:
    """{video: (label, start, end) of its spans}."""
    table = understand("--table", str(path), TableFlags(**flags))
    assert "spans" in table.columns, table.columns
    (rows,) = table.batches(9)
    assert not rows.bad
    return {
        name: [(*map(table.clean_label, span.labels), span.start, span.end) for span in spans]
        for name, spans in zip(rows.cells["id"], rows.cells["spans"], strict=True)
    }


@pytest.mark.parametrize("value", _SHAPES.values(), ids=_SHAPES)
def test_spans_inside_of_videos_are_read(value: Any, tmp_path: pathlib.Path) -> None:
    path = write_json(tmp_path / "t.json", value)
    expected = {"a": [("weld", 12.5, 31), ("cut", 5, 62.25)], "b": []}
    assert spans_of(path, rows="spans") == expected
    assert spans_of(path, can_have_spans=True) == expected, "it can mean nothing else"
    videos = understand("--table", str(path), TableFlags())
    (rows,) = videos.batches(9)
    assert not {"start", "end"} & set(rows.cells)
    labels = [sorted(map(videos.clean_label, names)) for names in rows.cells["labels"]]
    assert labels == [["cut", "weld"], []]


def test_splits_and_lengths_of_videos_are_kept(tmp_path: pathlib.Path) -> None:
    value = [{"id": "a", "subset": "train", "video_duration": 70.5, "spans": _A}, {"id": "b", "subset": "val"}]
    (rows,) = understand("--table", str(write_json(tmp_path / "t.json", value)), TableFlags(rows="spans")).batches(9)
    assert list(rows.cells["split"]) == ["train", "validate"]
    assert list(rows.cells["seconds"]) == [70.5, 0.0]


def test_spans_that_name_their_videos_are_rows_of_a_table(tmp_path: pathlib.Path) -> None:
    rows = [{"video": "a", **span} for span in _A]
    path = write_json(tmp_path / "t.json", {"annotations": rows})
    assert spans_of(path, rows="spans") == {"a": [("weld", 12.5, 31), ("cut", 5, 62.25)]}
    with pytest.raises(UsageError, match="--rows=spans"):
        understand("--table", str(path), TableFlags())
