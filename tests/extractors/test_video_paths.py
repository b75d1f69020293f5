"""Videos in folders: their ids, and files that are passed over. Nothing is decoded."""

from __future__ import annotations

import os
import pathlib

import pytest

from yt8m import storage
from yt8m.command_line import cli
from yt8m.datasets.extract.video_table import open_videos
from yt8m.errors import UsageError
from yt8m.extractors import video_paths
from yt8m.tables.understood import TableFlags


def touch(folder: pathlib.Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def ids_of(videos: str, **more: bool) -> list[str]:
    (rows,) = open_videos(videos, "folder", TableFlags(), **more).batches(99)
    return list(rows.cells["id"])


@pytest.mark.parametrize(
    "named", ["clips", "clips/", "./clips", "clips/*", "clips/*/*.mp4", "{absolute}/clips", "{absolute}/cl*s"]
)
def test_a_folder_that_is_added_changes_no_id(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    videos = named.format(absolute=tmp_path)
    prefix = "clips/" if "cl*s" in named else ""
    touch(tmp_path / "clips", "cat/1.mp4", "cat/2.mp4")
    first = [f"{prefix}cat/1.mp4", f"{prefix}cat/2.mp4"]
    assert ids_of(videos) == first
    touch(tmp_path / "clips", "dog/1.mp4")
    assert ids_of(videos) == [*first, f"{prefix}dog/1.mp4"]


def test_the_ids_of_earlier_versions_depended_on_the_other_files(tmp_path: pathlib.Path) -> None:
    touch(tmp_path, "cat/1.mp4", "cat/2.mp4")
    assert ids_of(str(tmp_path), has_earlier_ids=True) == ["1.mp4", "2.mp4"]
    touch(tmp_path, "dog/1.mp4")
    assert ids_of(str(tmp_path), has_earlier_ids=True) == ["cat/1.mp4", "cat/2.mp4", "dog/1.mp4"]


def test_single_files_and_several_patterns(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    touch(tmp_path, "a/1.mp4", "b/1.mp4", "b/c[1]/2.mp4", "top.mp4")
    assert ids_of("b/1.mp4") == ["1.mp4"]
    assert ids_of("top.mp4") == ["top.mp4"]
    assert ids_of("a,b") == ["a/1.mp4", "b/1.mp4", "b/c[1]/2.mp4"]
    assert ids_of("b/c[1]") == ["2.mp4"]  # a folder of this very name
    assert ids_of("*/*.mp4") == ["a/1.mp4", "b/1.mp4"]
    assert ids_of(".") == ["a/1.mp4", "b/1.mp4", "b/c[1]/2.mp4", "top.mp4"]


def test_ids_in_a_bucket(bucket: str) -> None:
    for name in ("cat/1.mp4", "cat/._1.mp4", "dog/2.webm", "notes.txt", "still.gif"):
        storage.write(f"{bucket}/clips/{name}", "")
    for videos in (f"{bucket}/clips", f"{bucket}/clips/"):
        found = video_paths.find(videos)
        assert found.ids() == ["cat/1.mp4", "dog/2.webm"]
        assert dict(found.passed_over) == {"hidden": 1, ".gif": 1}
    assert video_paths.find(f"{bucket}/clips/*/*.mp4").ids() == ["cat/1.mp4"]
    assert video_paths.has_folder([f"{bucket}/clips"])
    assert not video_paths.has_folder([f"{bucket}/clips/*/*.mp4"])


def test_hidden_files_are_passed_over_and_counted(tmp_path: pathlib.Path) -> None:
    touch(tmp_path, "cat/1.mp4", "cat/._1.mp4", "cat/.2.MP4", "cat/._x.gif", "cat/.DS_Store", ".trash/3.mp4", "x.gif")
    found = video_paths.find(str(tmp_path))
    assert found.ids() == ["cat/1.mp4"]
    assert dict(found.passed_over) == {"hidden": 4, ".gif": 1}
    lines = video_paths.describe_passed_over(found.passed_over)
    assert any("1 .gif" in line for line in lines)
    assert any("4 hidden files" in line for line in lines)
    assert [os.path.basename(path) for path in video_paths.find(f"{tmp_path}/cat/.*.MP4").paths] == [".2.MP4"]
    for pattern in (f"{tmp_path}/*/*.mp4", f"{tmp_path}/cat/?.mp4,{tmp_path}/cat/*.mp4"):
        found = video_paths.find(pattern)
        assert (found.ids()[0].endswith("1.mp4"), found.passed_over["hidden"]) == (True, 1)
    touch(tmp_path, "none/._1.mp4")
    with pytest.raises(UsageError, match=f"no video file.* {tmp_path}/none "):
        video_paths.find(f"{tmp_path}/none")


PROGRAMS = {
    "extract": [
        "extract",
        "--extractors=inception",
        "--labels=folder",
        "--out={out}",
        "--videos={videos}",
        "--dry_run",
    ],
    "audit": ["audit", "--extractors=inception", "--out={out}", "--videos={videos}", "--dry_run"],
    "predict": ["predict", "--model={out}", "{videos}"],
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_all_programs_take_the_videos_of_a_folder_alike(
    program: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["cat/1.mp4", "cat/._1.mp4", "dog/deep/2.webm", "dog/3.mkv", "__MACOSX/cat/1.mp4", "notes.txt", "x.gif"]
    touch(tmp_path / "clips", *names)
    values = {"out": str(tmp_path / "out"), "videos": str(tmp_path / "clips")}
    status = cli.main([word.format(**values) for word in PROGRAMS[program]])
    said = "".join(capsys.readouterr())
    assert "skipped 2 hidden files" in said
    assert "skipped files: 1 .gif" in said
    assert status == (2 if program == "predict" else 0)  # there is no such model
    assert program == "predict" or "3 videos" in said


def test_a_file_under_two_paths_is_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    touch(tmp_path, "cat/1.mp4")
    for named in ("cat,./cat", f"cat,{tmp_path}/cat"):
        with pytest.raises(UsageError, match=r"cat/1\.mp4 and .*cat/1\.mp4 are one file"):
            video_paths.find(named)
    assert video_paths.find("cat,cat/1.mp4").ids() == ["1.mp4"]


def test_patterns_of_all_levels_are_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    touch(tmp_path, "clips/cat/deep/1.mp4")
    with pytest.raises(UsageError, match="Name the folder clips:"):
        video_paths.find("clips/**/*.mp4")


@pytest.mark.parametrize(
    ("name", "content", "what"),
    [
        ("x.npy", b"\x93NUMPY\x01\x00", "NumPy array .*make-records --array"),
        ("x.mp4", b"<!doctype html>\n<p>not found", "a page of HTML"),
        ("x.onnx", b"\x08\x07\x12\x04onnx", "an ONNX file"),
        ("x.gz", b"\x1f\x8b\x08\x00", "gunzip"),
    ],
)
def test_a_file_that_is_no_video_is_called_by_what_it_is(
    tmp_path: pathlib.Path, name: str, content: bytes, what: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=f"{name} is no video: .*{what}"):
        video_paths.find(f"{tmp_path}/{name}")


def test_a_folder_without_videos_is_said_with_the_endings(tmp_path: pathlib.Path) -> None:
    (tmp_path / "notes.doc").touch()
    with pytest.raises(UsageError, match=rf"no video file.* {tmp_path} .*\.mp4"):
        video_paths.find(str(tmp_path))


@pytest.mark.parametrize("folder", ["__MACOSX", "@eaDir", "$RECYCLE.BIN", "System Volume Information", "lost+found"])
def test_folders_of_systems_are_passed_over_and_counted(folder: str, tmp_path: pathlib.Path) -> None:
    touch(tmp_path / "clips", "cat/1.mp4", f"{folder}/2.mp4", f"cat/{folder}/3.mp4", ".Trashes/4.mp4")
    found = video_paths.find(str(tmp_path / "clips"))
    assert found.ids() == ["cat/1.mp4"]
    assert found.passed_over[video_paths.HIDDEN] == 3
