"""The table of the comparison with PyTorch, and its place in the page."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from benchmarks.peers import table

PAGE = "# Beside PyTorch\n\nText.\n\n## Chip, 2 cores\n\nold\n\n## Other, 4 cores\n\nkept\n\n## Notes\n\n- a note\n"


def results(processor: str = "Chip, 2 cores", others: float = 0.0) -> dict[str, Any]:
    row = {
        "turns": 3,
        "others": others,
        "ratio": {"median": 1.2, "low": 1.1, "high": 1.25},
        "cpu_ratio": {"median": 1.3},
    }
    rows = {"peers/step/LstmModel": row, "peers/eval/LstmModel": row, "eval/LstmModel": {}}
    return {"processor": processor, "machine": "2 cores; quiet", "minutes": 47.6, "rows": rows}


def test_a_row_has_its_median_and_range_and_is_bold_below_its_goal() -> None:
    lines = table.section(results()).splitlines()
    assert lines[0] == "## Chip, 2 cores"
    assert lines[2] == "2 cores; quiet. The median of 3 turns, and the range. The run took 48 minutes."
    assert lines[-4] == "| LstmModel | 1.20 (1.10 to 1.25) |  | **1.20** (1.10 to 1.25) |  |  |  |"
    assert lines[-5] == "| NeXtVladModel |  |  |  |  |  |  |"


def test_rows_in_which_a_peer_is_faster_are_listed_with_their_ratio_by_cpu_time() -> None:
    both = results()
    assert table.section(both).splitlines()[-1] == "No row of this run is below 1.0."
    both["rows"]["peers/infer/GruModel"] = {
        **both["rows"]["peers/step/LstmModel"],
        "ratio": {"median": 0.994, "low": 0.9, "high": 1.1},
    }
    both["rows"]["peers/eval/GruModel"] = {
        **both["rows"]["peers/step/LstmModel"],
        "ratio": {"median": 0.996, "low": 0.9, "high": 1.1},
    }
    assert table.section(both).splitlines()[-1].endswith(" by CPU time: infer/GruModel 0.99 (1.30).")


def test_a_row_that_others_disturbed_is_marked() -> None:
    assert "| 1.20 (1.10 to 1.25) ! |" in table.section(results(others=0.4))


@pytest.mark.parametrize(
    ("processor", "headings"),
    [
        ("Chip, 2 cores", ["Chip, 2 cores", "Other, 4 cores", "Notes"]),
        ("New, 8 cores", ["Chip, 2 cores", "Other, 4 cores", "New, 8 cores", "Notes"]),
    ],
)
def test_the_section_of_a_processor_is_replaced_or_added(
    tmp_path: pathlib.Path, processor: str, headings: list[str]
) -> None:
    page, found = tmp_path / "page.md", tmp_path / "bench-peers.json"
    page.write_text(PAGE)
    found.write_text(json.dumps(results(processor)))
    assert table.main([str(found), str(page)]) == 0
    text = page.read_text()
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")] == headings
    assert ("old" in text) == (processor == "New, 8 cores")
    assert "kept\n\n##" in text
    assert text.endswith("## Notes\n\n- a note\n")
    assert table.main([str(found), str(page)]) == 0
    assert page.read_text() == text
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".new"] == []


def test_a_row_that_was_not_measured_again_keeps_its_figure() -> None:
    page = table.with_section(PAGE, table.section(results()))
    again = results(others=0.4)
    again["rows"] = {"peers/step/LstmModel": again["rows"]["peers/step/LstmModel"]}
    line = table.with_section(page, table.section(again)).partition("| LstmModel |")[2].splitlines()[0]
    assert line == " 1.20 (1.10 to 1.25) ! |  | **1.20** (1.10 to 1.25) ° |  |  |  |"
    page = table.with_section(page, table.section(again))
    assert page == table.with_section(page, table.section(again)), "one mark is enough"


def test_a_page_without_notes_is_refused_and_left_as_it_is(tmp_path: pathlib.Path) -> None:
    page, found = tmp_path / "page.md", tmp_path / "bench-peers.json"
    page.write_text("# Beside PyTorch\n")
    found.write_text(json.dumps(results()))
    with pytest.raises(SystemExit, match="## Notes"):
        table.main([str(found), str(page)])
    assert page.read_text() == "# Beside PyTorch\n"


def test_results_without_a_row_of_the_comparison_are_refused() -> None:
    with pytest.raises(SystemExit, match="peers/"):
        table.section({**results(), "rows": {"eval/LstmModel": {}}})


def test_the_page_of_the_project_has_a_place_for_a_new_processor() -> None:
    assert "| model |" in table.with_section((pathlib.Path(__file__).parents[2] / table.PAGE).read_text(), "## X\n")
