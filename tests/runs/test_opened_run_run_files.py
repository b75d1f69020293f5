"""What a run has written is read once, and files that are missing are no error."""

from __future__ import annotations

import json
import pathlib

import pytest

from yt8m.errors import RunError
from yt8m.runs.opened_run import RunFiles


def test_a_folder_without_files_holds_nothing(tmp_path: pathlib.Path) -> None:
    files = RunFiles(str(tmp_path))
    assert files.saved is None
    assert (files.training_lines, files.validation_lines, list(files.forgotten)) == ([], [], [])


def test_lines_of_training_and_of_validation_without_one_that_was_cut_short(tmp_path: pathlib.Path) -> None:
    lines = [{"step": 1, "loss": 2.0}, {"step": 1, "mode": "validate", "GAP": 0.5}, {"step": 2, "loss": 1.0}]
    text = "\n".join(map(json.dumps, lines))
    (tmp_path / "metrics.jsonl").write_text(text + '\n{"step": 3, "lo')
    files = RunFiles(str(tmp_path))
    assert files.training_lines == [lines[0], lines[2]]
    assert files.validation_lines == [lines[1]]
    (tmp_path / "metrics.jsonl").unlink()
    assert files.training_lines == [lines[0], lines[2]]  # each file is read once


def test_names_that_are_known_are_not_listed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    assert RunFiles(str(tmp_path), []).lines == []


def test_a_damaged_config_is_an_error_at_its_first_use(tmp_path: pathlib.Path) -> None:
    (tmp_path / "config.json").write_text("{")
    files = RunFiles(str(tmp_path))
    assert files.lines == []
    with pytest.raises(RunError, match=r"config\.json"):
        assert files.saved
