"""Which column names the videos, where no name of a column says it."""

from __future__ import annotations

import pathlib

import pytest

from yt8m.errors import UsageError
from yt8m.tables.understood import TableFlags, understand


@pytest.mark.parametrize("cells", [("0.61", "0.4", "0.33"), ("1e-3", "2,5", "-7"), ("3.0", "4.0", "5.0")])
@pytest.mark.parametrize("name", ["score", "value", "Breite"])
def test_numbers_name_no_video(name: str, cells: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    rows = [f"{video};{label};{cell}" for video, label, cell in zip("aab", ("cat", "dog", "cat"), cells, strict=True)]
    (tmp_path / "t.csv").write_text("\n".join([f"Aufnahme;label;{name}", *rows]) + "\n")
    with pytest.raises(UsageError, match="has no column 'id'; it has: Aufnahme"):
        understand("--table", str(tmp_path / "t.csv"), TableFlags())


def test_words_name_the_videos(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t.csv").write_text("Aufnahme;label;score\na1;cat;0.6\na2;dog;0.4\nb1;cat;0.3\n")
    (rows,) = understand("--table", str(tmp_path / "t.csv"), TableFlags()).batches(10)
    assert list(rows.cells["id"]) == ["a1", "a2", "b1"]
