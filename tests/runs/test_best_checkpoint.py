"""`--keep_best`: the copy in `best` is that of the highest GAP, and of no other."""

from __future__ import annotations

import json
import pathlib

import pytest

from yt8m import storage
from yt8m.runs.best_checkpoint import keep_best

ENDS = ("index", "meta", "data-00000-of-00001")


def checkpoint(run: pathlib.Path, step: int) -> str:
    """The prefix of a checkpoint whose files hold its step."""
    for end in ENDS:
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
    evaluated = tmp_path / "best/eval/report.json"  # best/ itself was evaluated
    evaluated.parent.mkdir()
    evaluated.touch()
    assert keep_best(str(tmp_path), checkpoint(tmp_path, 6), 6, 0.6)
    evaluated.unlink()
    evaluated.parent.rmdir()
    found = kept(tmp_path)
    assert json.loads(found.pop("best.json")) == {"step": 6, "gap": 0.6, "checkpoint": "model.ckpt-6"}
    assert found == {f"model.ckpt-6.{end}": f"{end} of 6" for end in ENDS}


def test_a_copy_without_its_note_was_cut_short_and_is_made_again(tmp_path: pathlib.Path) -> None:
    keep_best(str(tmp_path), checkpoint(tmp_path, 3), 3, 0.5)
    (tmp_path / "best/best.json").unlink()
    assert keep_best(str(tmp_path), checkpoint(tmp_path, 6), 6, 0.4)
    assert "model.ckpt-6.index" in kept(tmp_path)


@pytest.mark.parametrize("note", ["", "{", "[]", '{"step": 3}', '{"gap": "high"}', '{"gap": null}'])
def test_a_damaged_note_counts_as_none(tmp_path: pathlib.Path, note: str) -> None:
    keep_best(str(tmp_path), checkpoint(tmp_path, 3), 3, 0.9)
    (tmp_path / "best/best.json").write_text(note)
    assert keep_best(str(tmp_path), checkpoint(tmp_path, 6), 6, 0.0)
    assert json.loads(kept(tmp_path)["best.json"]) == {"step": 6, "gap": 0.0, "checkpoint": "model.ckpt-6"}


def test_the_first_is_kept_and_told_whatever_its_gap(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", logger="absl"):
        assert keep_best(str(tmp_path), checkpoint(tmp_path, 3), 3, 0.0)
    expected = f"the best checkpoint so far is that of step 3 (GAP 0.0000), kept in {tmp_path}/best"
    assert [record.getMessage() for record in caplog.records] == [expected]


def test_a_checkpoint_that_is_gone_takes_nobodys_place(tmp_path: pathlib.Path) -> None:
    keep_best(str(tmp_path), checkpoint(tmp_path, 3), 3, 0.5)
    before = kept(tmp_path)
    gone = checkpoint(tmp_path, 6)
    (tmp_path / "model.ckpt-6.index").unlink()
    with pytest.raises(storage.NotFoundError, match=rf"{gone} .*{tmp_path}/best"):
        keep_best(str(tmp_path), gone, 6, 0.6)
    assert kept(tmp_path).items() >= before.items()
    assert keep_best(str(tmp_path), checkpoint(tmp_path, 9), 9, 0.6)
    assert set(kept(tmp_path)) == {"best.json", *(f"model.ckpt-9.{end}" for end in ENDS)}


def test_files_of_another_step_that_begins_alike_are_not_copied(tmp_path: pathlib.Path) -> None:
    checkpoint(tmp_path, 31)
    keep_best(str(tmp_path), checkpoint(tmp_path, 3), 3, 0.5)
    assert set(kept(tmp_path)) == {"best.json", *(f"model.ckpt-3.{end}" for end in ENDS)}
