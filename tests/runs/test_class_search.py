"""`yt8m vocabulary search`: the classes it finds, and in which order."""

from __future__ import annotations

import csv
import io
import pathlib

import pytest

from yt8m.command_line import cli
from yt8m.records import vocabulary
from yt8m.runs.class_search import search

_SHIPPED = (pathlib.Path(vocabulary.__file__).parent.parent / "data/vocabulary.csv").read_text(encoding="utf-8")
ROWS = list(csv.DictReader(io.StringIO(_SHIPPED)))


def names_of(text: str) -> list[str]:
    return [vocabulary.load().names[index] for index in search(text, vocabulary.load())]


def test_everything_with_the_text_in_its_name_or_vertical_is_found():
    for text in ("guitar", "CAT", "food & drink"):
        wanted = {
            int(row["Index"])
            for row in ROWS
            if text.lower() in row["Name"].lower() or text.lower() in row["Vertical1"].lower()
        }
        assert len(wanted) > 3
        assert set(search(text, vocabulary.load())) == wanted


def test_the_best_matches_come_first():
    found = names_of("cat")
    assert found[0] == "Cat"
    begins = [name for name in found if name.lower().startswith("cat")]
    assert found[: len(begins)] == begins
    guitars = search("guitar", vocabulary.load())
    assert vocabulary.load().names[guitars[0]] == "Guitar"


def test_a_number_is_its_class():
    assert search("0", vocabulary.load())[0] == 0


def test_what_is_printed(capsys):
    assert cli.main(["vocabulary", "search", "acoustic", "guitar"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split("  ")[0] == "class"
    row = next(line for line in rows if "Acoustic guitar" in line)
    index, count = next((row["Index"], int(row["TrainVideoCount"])) for row in ROWS if row["Name"] == "Acoustic guitar")
    assert row.split()[0] == index
    assert f" {count:,} " in row
    assert row.index("Acoustic") == head.index("name")


def test_the_list_is_cut_and_says_so(capsys):
    assert cli.main(["vocabulary", "search", "car", "--limit=3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 3 + 1
    assert lines[-1].startswith("and ")


@pytest.mark.parametrize(
    ("words", "status", "part"),
    [
        (["search", "gitar"], 1, "no class has 'gitar' in its name; closest: Guitar"),
        (["search"], 2, "expected `yt8m vocabulary search TEXT`"),
        (["search", " "], 2, "expected `yt8m vocabulary search TEXT`"),
        (["find", "x"], 2, "expected `yt8m vocabulary search TEXT`"),
        (["search", "x", "--limit=0"], 2, "--limit must be at least 1"),
    ],
)
def test_what_finds_nothing_says_why(capsys, words, status, part):
    assert cli.main(["vocabulary", *words]) == status
    assert part in capsys.readouterr().err
