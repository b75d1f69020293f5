"""Rows of `yt8m extract`: their labels, refused before a video is decoded, and files of any name that are replaced."""

from __future__ import annotations

import json
import os
import pathlib

import made_videos
import pytest

from yt8m.command_line import cli
from yt8m.datasets.extract.video_table import open_videos
from yt8m.errors import RunError
from yt8m.tables.understood import TableFlags


@pytest.mark.parametrize("other", ["cat", "1"])
def test_a_number_that_is_no_class_of_the_vocabulary_is_refused(tmp_path: pathlib.Path, other: str) -> None:
    (tmp_path / "names.csv").write_text("index,name\n0,cat\n1,dog\n")
    (tmp_path / "clips.csv").write_text(f"path,labels\na.mp4,{other}\nb.mp4,7\n")
    words = [f"--{name}={tmp_path / file}" for name, file in (("videos", "clips.csv"), ("vocabulary", "names.csv"))]
    with pytest.raises(
        RunError, match=r"row 2 \(line 3\): the label '7' is not one of the 2 classes of the vocabulary"
    ):
        cli.call("extract", [*words, f"--out={tmp_path / 'data'}", "--extractors=own_extractors:Colours"])


def test_a_folder_whose_name_is_not_utf8_is_refused_as_a_label(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    (folder / "a.mp4").touch()
    words = [f"--videos={tmp_path}", "--labels=folder", f"--out={tmp_path / 'data'}"]
    with pytest.raises(RunError, match=r"row 1: the label 'caf\\udce9' is not UTF-8 text"):
        cli.call("extract", [*words, "--extractors=own_extractors:Colours"])


def test_the_report_names_a_file_whose_name_is_not_utf8(tmp_path: pathlib.Path) -> None:
    (tmp_path / "clips").mkdir()
    made_videos.write(tmp_path / "clips" / "good.mp4", made_videos.grey, None, 2.0)
    bad = tmp_path / "clips" / os.fsdecode(b"caf\xe9.mp4")
    bad.touch()
    words = [f"--videos={tmp_path / 'clips'}", "--labels=folder", f"--out={tmp_path / 'data'}", "--max_bad_videos=1"]
    assert cli.call("extract", [*words, "--extractors=own_extractors:Colours", "--jobs=1"]) == 0
    line, _ = map(json.loads, (tmp_path / "data" / "extract.jsonl").read_text("utf-8").splitlines())
    assert (line["path"], line["id"], line["state"]) == (str(bad), "caf\\xe9.mp4", "left out")


def test_a_bad_file_may_be_replaced_by_an_older_one(tmp_path: pathlib.Path) -> None:
    """As `mv` and `rsync` do, which keep the time of the file. A file that was missing may be older too."""
    made_videos.write(tmp_path / "good.mp4", made_videos.grey, None, 2.0)
    (tmp_path / "b.mp4").touch()
    for name in ("a.mp4", "old.mp4", "older.mp4"):
        (tmp_path / name).write_bytes((tmp_path / "good.mp4").read_bytes())
    (tmp_path / "clips.csv").write_text("path,labels,split\na.mp4,x,train\nb.mp4,x,train\nc.mp4,x,train\n")
    words = [f"--videos={tmp_path / 'clips.csv'}", f"--out={tmp_path / 'data'}", "--level=video", "--shards=3"]
    words += ["--extractors=own_extractors:Colours", "--jobs=1"]
    for bad, source in (("b.mp4", "old.mp4"), ("c.mp4", "older.mp4")):
        with pytest.raises(RunError, match=rf"1 of 3 videos are bad, the last one .*{bad}"):
            cli.call("extract", [*words, "--max_bad_videos=0"])
        os.utime(tmp_path / source, (1e9, 1e9))
        (tmp_path / source).replace(tmp_path / bad)
    assert cli.call("extract", [*words, "--max_bad_videos=0"]) == 0


def test_the_label_of_a_relative_path_is_the_name_of_its_folder(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cat" / "big").mkdir(parents=True)
    for path in ("cat/1.mp4", "cat/big/2.mp4"):
        (tmp_path / path).touch()
    (tmp_path / "cat" / "clips.csv").write_text("path\n1.mp4\nbig/2.mp4\nbig/../1.mp4\n")
    folders = {".": ["cat", "big"], "*.mp4,*/*.mp4": ["cat", "big"], "clips.csv": ["cat", "big", "cat"], "big": ["big"]}
    monkeypatch.chdir(tmp_path / "cat")
    for videos, labels in folders.items():
        (rows,) = open_videos(videos, "folder", TableFlags()).batches(9)
        assert rows.cells["labels"] == [(label,) for label in labels], videos
    monkeypatch.chdir(tmp_path / "cat" / "big")
    (rows,) = open_videos("..", "folder", TableFlags()).batches(9)
    assert rows.cells["labels"] == [("cat",), ("big",)]


def test_the_report_tells_ids_apart_that_look_alike(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "clips" / "disc"
    folder.mkdir(parents=True)
    made_videos.write(tmp_path / "good.mp4", made_videos.grey, None, 2.0)
    good = (tmp_path / "good.mp4").read_bytes()
    for name, content in ((b"\xff.mp4", b""), (rb"\xff.mp4", b""), (b"good.mp4", good), (b"better.mp4", good)):
        (folder / os.fsdecode(name)).write_bytes(content)
    words = [f"--videos={tmp_path / 'clips'}", "--labels=folder", f"--out={tmp_path / 'data'}"]
    words += ["--extractors=own_extractors:Colours", "--jobs=1"]
    assert cli.call("extract", [*words, "--max_bad_videos=2"]) == 0
    lines = map(json.loads, (tmp_path / "data/extract.jsonl").read_text().splitlines())
    assert {line["id"] for line in lines if line["state"] == "left out"} == {r"disc/\xff.mp4", r"disc/\x5cxff.mp4"}
