"""Tables without a column of ids: the message says which is missing, and how to write it."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import pytest
from table_files import write

from yt8m.errors import UsageError
from yt8m.tables.understood import TableFlags, understand

_EBIRD = ("Submission ID", "Common Name", "Scientific Name", "Count", "State/Province", "ML Catalog Numbers")
_SEEN = [("S1", "Mallard", "Anas platyrhynchos"), ("S1", "Robin", "Turdus migratorius"), ("S2", "Mallard", "Anas x")]


def refusal(path: pathlib.Path, rows: Sequence[Sequence[object]], as_spans: bool = False) -> str:
    write(path, rows)
    with pytest.raises(UsageError) as error:
        understand("--table", str(path), TableFlags(rows="spans" if as_spans else ""))
    return str(error.value)


@pytest.mark.parametrize(
    ("numbers", "way"), [("", "no column names a recording"), ("61 62", "a row for each of these")]
)
def test_sightings_of_ebird(numbers: str, way: str, tmp_path: pathlib.Path) -> None:
    """The header was taken for data, because of the sign in `State/Province`."""
    rows = [_EBIRD, *((*seen, n, "US-NY", numbers) for n, seen in enumerate(_SEEN, 1))]
    for table in (rows, [rows[0], *rows[2:]]):  # in the latter, each list has one species
        message = refusal(tmp_path / "t.csv", table)
        assert "it has: Submission ID, Common Name" in message
        assert way in message


@pytest.mark.parametrize("as_spans", [True, False])
@pytest.mark.parametrize(
    "header",
    [("Start (s)", "End (s)", "Scientific name", "Common name", "Confidence"), ("Start", "End", "Label", "a", "b")],
)
def test_times_of_one_file(as_spans: bool, header: Sequence[str], tmp_path: pathlib.Path) -> None:
    rows = [header, (0.0, 3.0, "Turdus merula", "Blackbird", 0.9), (3.0, 6.0, "Parus major", "Great Tit", 0.8)]
    message = refusal(tmp_path / "t.csv", rows, as_spans)
    assert "Add a column called file with the name of the file in each row" in message


def test_a_path_in_the_first_row_is_no_header(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "t.csv", [("a/v1.mp4", "cat"), ("a/v2.mp4", "dog"), ("b/v3.mp4", "cat")])
    table = understand("--table", str(tmp_path / "t.csv"), TableFlags())
    assert [rows.cells["id"] for rows in table.batches(9)] == [["a/v1.mp4", "a/v2.mp4", "b/v3.mp4"]]
