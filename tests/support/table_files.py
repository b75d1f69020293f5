"""Writes tables of labels, and reads them as the reader of tables understands them."""

from __future__ import annotations

import csv
import io
import json
import pathlib
import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from yt8m.tables.understood import TableFlags, understand

Truth = dict[str, list[str]]
Form = Callable[[pathlib.Path], tuple[pathlib.Path, Truth]]
NAMES = ("cat", "dog", "bird", "red fox", "otter")
SHORT = ("cat", "dog", "bird", "fox", "otter")  # names without blanks


def truth(names: Sequence[str] = NAMES, most: int = 3, fewest: int = 1, seed: int = 5, end: str = "") -> Truth:
    """{id: labels} of 40 videos with `fewest` to `most` labels each; an id ends in `end`."""
    draw = random.Random(seed)
    made = {}
    for number in range(40):
        chosen = draw.sample(list(names), fewest + number % (most - fewest + 1))
        made[f"v{number:02}{end}"] = [name for name in names if name in chosen]
    return made


def text_of(rows: Iterable[Sequence[Any]], delimiter: str = ",", end: str = "\n", **how: Any) -> str:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator=end, **how).writerows(rows)
    return text.getvalue()


def write(path: pathlib.Path, rows: Iterable[Sequence[Any]], **how: Any) -> pathlib.Path:
    path.write_text(text_of(rows, **how), encoding="utf-8")
    return path


def joined(made: Truth, separator: str, header: Sequence[str] = ("id", "labels")) -> list[Sequence[str]]:
    return [header, *((name, separator.join(labels)) for name, labels in made.items())]


def write_json(path: pathlib.Path, value: Any) -> pathlib.Path:
    path.write_text(json.dumps(value))
    return path


def read(path: pathlib.Path, **flags: Any) -> Truth:
    """{id: sorted labels} as the reader of tables understands them."""
    table = understand("--table", str(path), TableFlags(**flags))
    found: Truth = {}
    for rows in table.batches(7):
        assert not rows.bad
        for video, labels in zip(rows.cells["id"], rows.cells["labels"], strict=True):
            assert str(video) not in found
            found[str(video)] = sorted({name for name in map(table.clean_label, labels) if name})
    return found
