"""Rows of `yt8m extract`: their labels, refused before a video is decoded, and files of any name that are replaced."""

from __future__ import annotations

import json
import os
import pathlib

import made_videos
import pytest

from yt8m import storage
from yt8m.command_line import cli
from yt8m.datasets.extract.shard_extraction import Journal, VideoVersion
from yt8m.datasets.extract.video_table import open_videos
from yt8m.errors import RunError, UsageError
from yt8m.tables.understood import TableFlags


@pytest.mark.parametrize("other", ["cat", "1"])
def test_a_number_that_is_no_class_of_the_vocabulary_is_refused(tmp_path: pathlib.Path, other: str) -> None:
    (tmp_path / "names.csv").write_text("index,name\n0,cat\n1,dog\n")
    (tmp_path / "clips.csv").write_text(f"path,labels\na.mp4,{other}\nb.mp4,7\n")
    words = [f"--{name}={tmp_path / file}" for name, file in (("videos", "clips.csv"), ("vocabulary", "names.csv"))]
    with pytest.raises(RunError, match=r"row 2 \(line 3\): .*'7' is not.*\b2 classes.*vocabulary"):
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


@pytest.mark.heavy
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
        with pytest.raises(RunError, match=rf"\b1 of 3 videos.*\b{bad}: "):
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


def replace_quietly(path: pathlib.Path, change_at: int | None = None) -> None:
    """Puts another file of the same size and time there, as `rsync -t` does, perhaps with another byte."""
    content, status = bytearray(path.read_bytes()), path.stat()
    if change_at is not None:
        content[change_at] ^= 1
    new = path.with_name("new")
    new.write_bytes(content)
    os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
    new.replace(path)


def test_a_video_that_is_replaced_by_one_of_the_same_size_and_time_is_noticed(tmp_path: pathlib.Path) -> None:
    """Samples of the content do not see it; a copy of the same content is taken for the same video."""
    clip = tmp_path / "clips/disc/a.mp4"
    clip.parent.mkdir(parents=True)
    made_videos.write(clip, made_videos.grey, None, 2.0)
    clip.write_bytes(clip.read_bytes() + bytes(1 << 19))  # what follows the last box is passed over
    words = [f"--videos={tmp_path / 'clips'}", "--labels=folder", f"--out={tmp_path / 'data'}"]
    words += ["--extractors=own_extractors:Colours", "--jobs=1", "--level=video", "--shards=1"]
    assert cli.call("extract", words) == 0
    made = (tmp_path / "data/video/.progress.json").stat().st_mtime_ns
    replace_quietly(clip)
    assert cli.call("extract", words) == 0
    assert (tmp_path / "data/video/.progress.json").stat().st_mtime_ns == made
    replace_quietly(clip, change_at=140_000)
    with pytest.raises(UsageError, match="from other files"):
        cli.call("extract", words)


@pytest.mark.parametrize(("change_at", "is_finished"), [(None, True), (140_000, False)])
def test_a_finished_shard_knows_its_videos(tmp_path: pathlib.Path, change_at: int | None, is_finished: bool) -> None:
    video = tmp_path / "a.mp4"
    video.write_bytes(bytes(1 << 19))

    def version() -> VideoVersion:
        stamp = storage.stamps([str(video)])[str(video)]
        return VideoVersion(str(video), str([*stamp[:2], storage.samples([str(video)])[str(video)]]), stamp.status)

    journal = Journal(str(tmp_path), "inputs", {})
    journal.add("train/0", journal.new_entry([version()]))
    replace_quietly(video, change_at)
    assert Journal(str(tmp_path), "inputs", {}).load("train/0", [version()]) == is_finished
    assert Journal(str(tmp_path), "inputs", {}).load("train/0", [VideoVersion(str(video), "", "")])  # it was removed
