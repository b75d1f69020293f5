"""docs/developers/speed.md stays short, and its commands name rows that there are."""

from __future__ import annotations

import fnmatch
import pathlib
import re

from benchmarks import catalogue

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs/developers/speed.md").read_text()


def test_it_has_at_most_3500_words() -> None:
    assert len(PAGE.split()) <= 3500


def test_the_rows_of_its_commands_are_there() -> None:
    names = {*catalogue.ROWS, *catalogue.LONG_ROWS}
    for pattern in re.findall(r"--rows '([^']+)'", PAGE):
        assert fnmatch.filter(names, pattern), pattern
