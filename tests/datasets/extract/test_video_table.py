"""What the folders of videos say: classes, and splits above them."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import pytest

from yt8m.command_line import cli
from yt8m.datasets.extract.video_table import open_videos
from yt8m.errors import UsageError
from yt8m.tables.understood import TableFlags


def make(folder: pathlib.Path, names: Sequence[str]) -> str:
    for name in names:
        path = folder / "clips" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return str(folder / "clips")


def test_folders_above_the_classes_are_splits(tmp_path: pathlib.Path) -> None:
    videos = make(tmp_path, ["Train/cat/1.mp4", "val/cat/2.mp4", "val/dog/deep/3.mp4", "test/dog/4.mp4"])
    table = open_videos(videos, "folder", TableFlags())
    (rows,) = table.batches(10)
    read = {
        name: (*labels, split)
        for name, labels, split in zip(rows.cells["id"], rows.cells["labels"], rows.cells["split"], strict=True)
    }
    assert read == {
        "Train/cat/1.mp4": ("cat", "train"),
        "val/cat/2.mp4": ("cat", "validate"),
        "val/dog/deep/3.mp4": ("deep", "validate"),
        "test/dog/4.mp4": ("dog", "test"),
    }
    assert "split" in " ".join(table.describe())


@pytest.mark.parametrize("names", [["train/cat/1.mp4", "other/cat/2.mp4"], ["train/cat/1.mp4", "train/dog/2.mp4"]])
def test_other_folders_say_nothing_of_splits(names: list[str], tmp_path: pathlib.Path) -> None:
    assert "split" not in open_videos(make(tmp_path, names), "folder", TableFlags()).columns


def test_splits_are_no_classes(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match="test, train"):
        open_videos(make(tmp_path, ["train/1.mp4", "test/2.mp4"]), "folder", TableFlags())


def test_data_sets_with_earlier_ids_keep_their_splits(tmp_path: pathlib.Path) -> None:
    videos = make(tmp_path, ["train/cat/1.mp4", "val/cat/2.mp4"])
    assert "split" not in open_videos(videos, "folder", TableFlags(), has_earlier_ids=True).columns


def test_a_look_at_the_table_needs_no_weights(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    videos = make(tmp_path, ["cat/1.mp4", "cat/2.mp4", "dog/3.mp4"])
    flags = ["--extractors=inception", "--labels=folder", f"--out={tmp_path / 'out'}"]
    assert cli.main(["extract", f"--videos={videos}", *flags, "--dry_run"]) == 0
    assert "3 videos, 2 classes" in capsys.readouterr().out
    assert cli.main(["extract", f"--videos={tmp_path / 'empty'}", *flags]) == 2
    assert str(tmp_path / "empty") in capsys.readouterr().err
    assert not (tmp_path / "cache").exists()
    assert not (tmp_path / "out").exists()


def test_a_look_at_the_table_says_which_videos_do_not_exist(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path, ["cat/1.mp4", "dog/2.mp4"])
    table = tmp_path / "clips.csv"
    flags = ["extract", f"--videos={table}", "--extractors=inception", f"--out={tmp_path / 'out'}", "--dry_run"]
    found = [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*.mp4"))]
    table.write_text("".join(f"{line}\n" for line in ["path,labels", *(f"{path},cat" for path in found), "no.mp4,cat"]))
    assert cli.main(flags) == 0
    assert "not exist: 1, such as " in capsys.readouterr().out
    table.write_text("path,labels\nno.mp4,cat\nnor.mp4,dog\n")
    assert cli.main(flags) == 2
    assert "none of the 2 videos exists" in capsys.readouterr().err


def labels_of(videos: str, **flags: str) -> dict[str, tuple[str, ...]]:
    table = open_videos(videos, "folder", TableFlags(**flags))
    (rows,) = table.batches(20)
    table.refuse_combinations({name for labels in rows.cells["labels"] for name in labels})
    return dict(zip(rows.cells["id"], rows.cells["labels"], strict=True))


@pytest.mark.parametrize("name", ["none", "nan", "unlabeled"])
def test_a_folder_that_says_that_there_is_no_label_is_no_class(name: str, tmp_path: pathlib.Path) -> None:
    videos = make(tmp_path, ["cat/1.mp4", "dog/2.mp4", f"{name}/3.mp4", f"{name}/4.mp4"])
    assert labels_of(videos) == {"cat/1.mp4": ("cat",), "dog/2.mp4": ("dog",), f"{name}/3.mp4": (), f"{name}/4.mp4": ()}
    described = open_videos(videos, "folder", TableFlags()).describe()
    assert f"2 of the folder {name!r} without a label" in described


@pytest.mark.parametrize("name", ["cat,dog", "cat;dog", "cat|dog"])
def test_folders_of_combinations_are_refused(name: str, tmp_path: pathlib.Path) -> None:
    videos = make(tmp_path, ["cat/1.mp4", "dog/2.mp4", f"{name}/3.mp4"])
    with pytest.raises(UsageError, match=r"may be.*labels 'cat' and 'dog' .*--label_separator=none"):
        labels_of(videos)
    assert labels_of(videos, separator="none")[f"{name}/3.mp4"] == (name,)
    (tmp_path / "t.csv").write_text(f'path\nclips/cat/1.mp4\nclips/dog/2.mp4\n"clips/{name}/3.mp4"\n')
    with pytest.raises(UsageError, match=r"may be.*labels 'cat' and 'dog' .*--label_separator=none"):
        labels_of(str(tmp_path / "t.csv"))
