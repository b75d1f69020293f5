"""Random tables in random dialects are read back as they were written, or refused; never read as something else."""

from __future__ import annotations

import csv
import io
import json
import pathlib
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from table_files import Truth, read

from yt8m.errors import RunError, UsageError

_WORDS = [
    "cat",
    "dog",
    "red fox",
    "Bär",
    "C++",
    "Action/Adventure",
    "Animal, wild",
    "R&B; soul",
    "sea-lion",
    "É",
    "otter",
]


_PLAIN = [word for word in _WORDS if not set(word) & set(";,/+&")]


@st.composite
def tables(draw: st.DrawFn, *, is_clear: bool = False) -> tuple[str, bytes, Truth, str]:
    """(ending, content, truth, separator of labels) of a table.

    Args:
      is_clear: whether names are plain, there are at least three, and each is alone and in pairs.
    """
    separator = draw(st.sampled_from([";", "; ", ",", ", ", "|", "/", "+", "\n"]))
    sign = separator.strip() or separator  # a name that holds it could not be told from two
    names = draw(st.lists(st.sampled_from(_PLAIN if is_clear else _WORDS), min_size=2, max_size=6, unique=True))
    names = [name for name in names if sign not in name] or ["cat", "dog"]
    names = [*names, *(word for word in ("lion", "tiger") if is_clear)][:6]
    lists = draw(st.lists(st.lists(st.sampled_from(names), max_size=3, unique=True), min_size=4, max_size=40))
    pairs = [[first, second] for first, second in zip(names, [*names[1:], names[0]], strict=True)]
    lists = [*(2 * [[name] for name in names] + 2 * pairs if is_clear else ()), *lists]
    made = {f"video {number}": sorted(labels) for number, labels in enumerate(lists)}
    kind = draw(st.sampled_from(["separator", "json", "python", "columns", "rows"]))
    rows = _rows(kind, separator, made, names)
    delimiter, end = draw(st.sampled_from([",", ";", "\t", "|"])), draw(st.sampled_from(["\n", "\r\n", "\r"]))
    quoting = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
    if separator == end.strip("\r") or end == "\r":  # `csv` writes a line end of another kind without quotes
        quoting = csv.QUOTE_ALL
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"]))
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quoting).writerows(rows)
    return draw(st.sampled_from([".csv", ".tsv", ".txt"])), text.getvalue().encode(encoding), made, separator


def _rows(kind: str, separator: str, made: Truth, names: list[str]) -> list[list[Any]]:
    if kind == "columns":
        return [["id", *names], *([video, *(int(name in labels) for name in names)] for video, labels in made.items())]
    if kind == "rows":
        return [["id", "label"], *([video, name] for video, labels in made.items() for name in labels or [""])]
    write = {"separator": separator.join, "json": json.dumps, "python": str}[kind]
    return [["id", "labels"], *([video, write(labels)] for video, labels in made.items())]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(tables())
def test_a_table_is_read_back_or_refused(tmp_path: pathlib.Path, table: tuple[str, bytes, Truth, str]) -> None:
    ending, content, made, separator = table
    path = tmp_path / f"t{ending}"
    path.write_bytes(content)
    try:
        found = read(path)
    except (UsageError, RunError):
        return
    if found != made:
        # Names such as `Animal, wild` have such separators too; then no part may be a label of its own.
        assert separator in (", ", "; ", "/")
        assert found == {video: [separator.join(labels)] if labels else [] for video, labels in made.items()}
        alone = {labels[0] for labels in made.values() if len(labels) == 1}
        assert alone.isdisjoint(label for labels in made.values() if len(labels) > 1 for label in labels)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
@given(tables(is_clear=True))
def test_a_clear_table_is_read_back(tmp_path: pathlib.Path, table: tuple[str, bytes, Truth, str]) -> None:
    ending, content, made, _ = table
    path = tmp_path / f"t{ending}"
    path.write_bytes(content)
    assert read(path) == made
