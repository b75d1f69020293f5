"""`--keep_best`: the copy in `best` is that of the highest GAP, and of no other."""

from __future__ import annotations

import json
import pathlib

import pytest

from yt8m.commands.saved_run import keep_best


def checkpoint(run: pathlib.Path, step: int) -> str:
    """The prefix of a checkpoint whose files hold its step."""
    for end in ("index", "meta", "data-00000-of-00001"):
        (run / f"model.ckpt-{step}.{end}").write_text(f"{end} of {step}")
    return str(run / f"model.ckpt-{step}")


def kept(run: pathlib.Path) -> dict[str, str]:
    """What lies in `best`."""
    return {path.name: path.read_text() for path in (run / "best").iterdir()}


@pytest.mark.parametrize("later", [0.4, 0.5], ids=["worse", "equal"])
def test_a_checkpoint_that_is_not_better_changes_nothing(tmp_path: pathlib.Path, later: float) -> None:
    assert keep_best(str(tmp_path), checkpoint(tmp_path, 3), 3, 0.5)
    before = kept(tmp_path)
    assert not keep_best(str(tmp_path), checkpoint(tmp_path, 6), 6, later)
    assert kept(tmp_path) == before
    assert json.loads(before["best.json"]) == {"step": 3, "gap": 0.5, "checkpoint": "model.ckpt-3"}


def test_a_better_one_takes_its_place(tmp_path: pathlib.Path) -> None:
    keep_best(str(tmp_path), checkpoint(tmp_path, 3), 3, 0.5)
    assert keep_best(str(tmp_path), checkpoint(tmp_path, 6), 6, 0.6)
    found = kept(tmp_path)
    assert json.loads(found.pop("best.json")) == {"step": 6, "gap": 0.6, "checkpoint": "model.ckpt-6"}
    assert found == {f"model.ckpt-6.{end}": f"{end} of 6" for end in ("index", "meta", "data-00000-of-00001")}


def test_a_copy_without_its_note_was_cut_short_and_is_made_again(tmp_path: pathlib.Path) -> None:
    keep_best(str(tmp_path), checkpoint(tmp_path, 3), 3, 0.5)
    (tmp_path / "best/best.json").unlink()
    assert keep_best(str(tmp_path), checkpoint(tmp_path, 6), 6, 0.4)
    assert "model.ckpt-6.index" in kept(tmp_path)
