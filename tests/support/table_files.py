"""Writes tables of labels, and reads them as the reader of tables understands them."""

from __future__ import annotations

import csv
import io
import pathlib
from collections.abc import Iterable, Sequence
from typing import Any

from yt8m.tables.understood import TableFlags, understand

Truth = dict[str, list[str]]


def text_of(rows: Iterable[Sequence[Any]], delimiter: str = ",", end: str = "\n", **how: Any) -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator=end, **how).writerows(rows)
    return text.getvalue()


def write(path: pathlib.Path, rows: Iterable[Sequence[Any]], **how: Any) -> pathlib.Path:
    path.write_text(text_of(rows, **how), encoding="utf-8")
    return path


def read(path: pathlib.Path, **flags: Any) -> Truth:
    """{id: sorted labels} as the reader of tables understands them."""
    table = understand("--table", str(path), TableFlags(**flags))
    found: Truth = {}
    for rows in table.batches(7):
        assert not rows.bad
        for video, labels in zip(rows.cells["id"], rows.cells["labels"], strict=True):
            assert str(video) not in found
            found[str(video)] = sorted(label for label in labels if label)
    return found
