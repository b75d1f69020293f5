"""An audit of video files: their records are made first, and the page has links to the videos."""

from __future__ import annotations

import csv
import json
import pathlib
import shutil

import made_videos
import pytest

from yt8m.command_line import cli
from yt8m.errors import UsageError

pytestmark = [pytest.mark.long, pytest.mark.heavy]


def test_a_video_in_the_wrong_folder_is_found(tmp_path: pathlib.Path) -> None:
    for number in range(32):
        kind = ("disc", "stripes")[number % 2]
        (tmp_path / "clips" / kind).mkdir(parents=True, exist_ok=True)
        made_videos.write(tmp_path / "clips" / kind / f"{number}.mp4", made_videos.shape(kind, seed=3), None, 1.0)
    (tmp_path / "clips" / "disc" / "._1.mp4").write_bytes(b"Mac OS X")
    shutil.move(tmp_path / "clips" / "disc" / "0.mp4", tmp_path / "clips" / "stripes" / "0.mp4")
    words = [f"--videos={tmp_path / 'clips'}", "--extractors=own_extractors:Thumbnails", f"--out={tmp_path / 'audit'}"]
    assert (
        cli.call("audit", [*words, "--folds=2", "--num_epochs=40", "--base_learning_rate=0.05", "--min_chance=0.001"])
        == 0
    )
    with (tmp_path / "audit" / "issues.csv").open(newline="") as file:
        first = next(csv.DictReader(file))
    assert first["video"] == "stripes/0.mp4"
    assert "stripes/0.mp4" in (tmp_path / "audit" / "audit.html").read_text()
    assert str(tmp_path / "clips" / "stripes" / "0.mp4") in (tmp_path / "audit" / "records" / "media.csv").read_text()
    manifest = json.loads((tmp_path / "audit" / "records" / "video" / "train" / "manifest.json").read_text())
    assert manifest["extractors"][0]["name"] == "own_extractors:Thumbnails"


@pytest.mark.parametrize(
    "words", [[], ["--data=a.tfrecord", "--videos=clips", "--extractors=own_extractors:Colours"], ["--videos=clips"]]
)
def test_records_or_videos_are_named(tmp_path: pathlib.Path, words: list[str]) -> None:
    with pytest.raises(UsageError, match="--extractors"):
        cli.call("audit", [*words, f"--out={tmp_path / 'audit'}"])
