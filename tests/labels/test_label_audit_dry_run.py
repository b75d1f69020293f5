"""`--dry_run` of an audit says in one paragraph what would be audited, and writes nothing."""

from __future__ import annotations

import pathlib

import made_videos
import pytest
from labels.own_labels import make_records, write_table

from yt8m.command_line import cli


def test_records(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_table(tmp_path)
    pattern = make_records(tmp_path)
    capsys.readouterr()
    assert cli.main(["audit", f"--data={pattern}", f"--out={tmp_path}/audit", "--folds=3", "--dry_run"]) == 0
    (paragraph,) = capsys.readouterr().out.splitlines()
    for part in ("310 videos in", "3 classes", "3 folds", f"{tmp_path}/audit"):
        assert part in paragraph
    assert not (tmp_path / "audit").exists()


def test_videos(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind in ("disc", "stripes"):
        (tmp_path / "clips" / kind).mkdir(parents=True)
        made_videos.write(tmp_path / "clips" / kind / "a.mp4", made_videos.shape(kind, seed=3), None, 1.0)
    words = [f"--videos={tmp_path / 'clips'}", "--extractors=own_extractors:Thumbnails", f"--out={tmp_path / 'audit'}"]
    assert cli.main(["audit", *words, "--dry_run"]) == 0
    out = capsys.readouterr().out
    assert "2 videos" in out
    assert "2 classes" in out
    assert not (tmp_path / "audit").exists()
