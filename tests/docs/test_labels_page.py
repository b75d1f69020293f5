"""The page on labels: its commands, one after the other, on data with planted errors."""

from __future__ import annotations

import contextlib
import csv
import json
import pathlib
from collections.abc import Iterator

import pytest
from docs.command_blocks import ROOT

from docs import command_blocks

PAGE = ROOT / "docs" / "users" / "labels.md"
pytestmark = [pytest.mark.long, pytest.mark.heavy]


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What all commands print; the working directory has what they made."""
    with contextlib.chdir(tmp_path_factory.mktemp("labels_page")):
        for name, code in command_blocks.files_of(PAGE).items():
            pathlib.Path(name).write_text(code)
        yield "".join(command_blocks.run(block.text) for block in command_blocks.blocks(PAGE) if block.language == "sh")


def rows_of(path: str) -> list[dict[str, str]]:
    with pathlib.Path(path).open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_planted_errors_and_copies_are_found(printed: str) -> None:
    wrong = {f"clip {number:03}" for number in range(7, 600, 20)}
    missing = {f"clip {number:03}" for number in range(4, 600, 25)} | wrong
    first = rows_of("audit/issues.csv")[:50]
    right = [row["video"] in (wrong if row["kind"] == "wrong" else missing) for row in first]
    assert sum(right) >= 0.8 * len(first)
    pairs = {(row["video"], row["other"]) for row in rows_of("audit/copies.csv")}
    assert {tuple(sorted(pair)) for pair in pairs} == {
        (f"clip {number:03}", f"copy {number:03}") for number in range(10)
    }
    assert "labels are wrong" in printed


def test_the_records_are_corrected(printed: str) -> None:
    corrected, remade = (
        json.loads(pathlib.Path(f"{folder}/video/summary.json").read_text())["labels corrected"]
        for folder in ("corrected", "remade")
    )
    assert corrected["added"] + corrected["removed"] == 20
    assert corrected == remade
    assert len(rows_of("next.csv")) == len(json.loads(pathlib.Path("tasks.json").read_text())) == 10
