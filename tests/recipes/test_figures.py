from __future__ import annotations

import pathlib

import pytest

from recipes import figures, files
from recipes.figures import Row

ROWS = {"B": Row(0.5, 1200, 345.6), "A": Row(0.75, 7, 98765.0)}


def test_a_written_table_reads_back(tmp_path: pathlib.Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"above\n{figures.BEGIN}\nold\n{figures.END}\nbelow\n")
    figures.write_table(page, figures.table(ROWS))
    text = page.read_text()
    assert text.startswith("above\n")
    assert text.endswith("\nbelow\n")
    assert "| A | 0.750 | 7 | 99,000 |\n| B | 0.500 | 1,200 | 350 |" in text
    assert figures.read_table(page) == {"A": Row(0.75, 7, 99_000), "B": Row(0.5, 1200, 350)}


def test_a_model_that_does_not_win_is_told() -> None:
    gaps = {"FrameLevelLogisticModel": 0.6, "LogisticModel": 0.7, "LstmModel": 0.65, "NetVladModel": 0.69}
    (one,) = figures.broken_claims(gaps, margin=0.02)
    assert one == "NetVladModel has a GAP of 0.690, which does not beat LogisticModel (0.700) by 0.02"
    assert figures.broken_claims({"LstmModel": 0.1}, margin=0.02) == []


def test_a_figure_that_left_the_stated_one_is_told() -> None:
    told = list(figures.drifted({"A": 0.61, "B": 0.5}, {"A": 0.65, "B": 0.52}, tolerance=0.03))
    assert told == ["A has a GAP of 0.610; its recipe states 0.650 (+- 0.03)"]


def test_a_recipe_states_one_figure(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FOLDER", tmp_path)
    monkeypatch.setattr(files, "SMALL", tmp_path / "small")
    (tmp_path / "small").mkdir()
    paths = [tmp_path / "X.flags", tmp_path / "small" / "X.flags"]
    for path in paths:
        path.write_text("# GAP 0.9 elsewhere. GAP 0.123 on the sample data.\n--model=X\n")
    files.state("X", 0.4567)
    assert [files.stated(path) for path in paths] == [0.457, 0.457]
    paths[0].write_text("# none\n")
    with pytest.raises(ValueError, match="states 0 figures"):
        files.stated(paths[0])
