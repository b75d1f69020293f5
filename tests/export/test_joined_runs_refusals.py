"""`yt8m ensemble` of runs refuses an output that it would have to replace."""

from __future__ import annotations

import pathlib

import pytest
from small_run import run

from yt8m.command_line import cli


def content(folder: pathlib.Path) -> dict[str, bytes]:
    """{path in the folder: content} of all files in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.heavy
def test_a_folder_that_exists_is_refused_and_stays(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    member, other = tmp_path / "member", tmp_path / "other"
    assert run(member, "--max_steps=2") == 0
    other.mkdir()
    (other / "notes.txt").write_text("a user's")
    before = content(tmp_path)
    capsys.readouterr()
    for out in (member, other):
        assert cli.main(["ensemble", f"--model={member},{member}", f"--out={out}"]) == 2
        expected = f"yt8m ensemble: error: --out={out} exists already; name another, or remove it first.\n"
        assert capsys.readouterr().err.endswith(expected)
    assert content(tmp_path) == before
