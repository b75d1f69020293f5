"""Videos of the training that a model is evaluated on are found under whatever name."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable

import fault_shards
import pytest
from reader_records import video_record, write_shard

from yt8m import storage
from yt8m.records import shared_videos
from yt8m.records.opened_data import open_data


@pytest.fixture
def trained(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "train").mkdir()
    for name in "ab":
        fault_shards.write(tmp_path / f"train/{name}.tfrecord", fault_shards.sound("video", 6, name))
    (tmp_path / "other").mkdir()
    fault_shards.write(tmp_path / "other/c.tfrecord", fault_shards.sound("video", 6, "c"))
    monkeypatch.chdir(tmp_path)
    return f"{tmp_path}/train/*.tfrecord"


def _described(pattern: str, trained: str) -> str:
    return shared_videos.describe(open_data(pattern), trained)


WAYS: dict[str, Callable[[], object]] = {
    "the same name": lambda: "train/a.tfrecord",
    "another spelling": lambda: "other/../train/./a.tfrecord",
    "a link": lambda: pathlib.Path("other/a.tfrecord").symlink_to("../train/a.tfrecord"),
    "a hard link": lambda: pathlib.Path("other/a.tfrecord").hardlink_to("train/a.tfrecord"),
    "a linked folder": lambda: pathlib.Path("linked").symlink_to("train") or "linked/a.tfrecord",
    "a copy": lambda: shutil.copy("train/a.tfrecord", "other/a.tfrecord") and None,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_file_of_the_training_is_known(way: str, trained: str) -> None:
    named = WAYS[way]() or "other/a.tfrecord"
    text = _described(f"other/c.tfrecord,{named}", trained)
    assert text.startswith(f"1 of the 2 files are files of the training, such as {named}, which is /")
    assert "train/a.tfrecord;" in text


def test_files_of_other_videos_are_none(trained: str) -> None:
    assert _described("other/*.tfrecord", trained) == ""
    assert _described("train/*.tfrecord", "gone/*.tfrecord") == ""
    assert _described("train/*.tfrecord", "") == ""


def test_videos_in_other_files_are_known_by_their_ids(trained: str) -> None:
    records = [*fault_shards.sound("video", 3, "a"), *fault_shards.sound("video", 5, "d")]
    fault_shards.write(pathlib.Path("other/mixed.tfrecord"), records)
    assert _described("other/mixed.tfrecord", trained).startswith("3 of the 8 videos have ids of training videos")


def test_ids_that_are_numbers_of_rows_count_only_with_the_same_record(trained: str) -> None:
    first = [video_record(id=[b"%d" % row], labels=[0], mean_rgb=[float(row)]) for row in range(4)]
    second = [video_record(id=[b"%d" % row], labels=[0], mean_rgb=[row + 9.0]) for row in range(3)]
    write_shard(pathlib.Path("rows.tfrecord"), first)
    write_shard(pathlib.Path("others.tfrecord"), second)
    assert _described("others.tfrecord", "rows.tfrecord") == ""
    write_shard(pathlib.Path("others.tfrecord"), [*second, first[3]])
    assert _described("others.tfrecord", "rows.tfrecord").startswith("1 of the 4 videos")


def test_large_data_and_damaged_files_are_not_read_for_ids(trained: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = pathlib.Path("train/a.tfrecord").read_bytes()
    pathlib.Path("other/cut.tfrecord").write_bytes(content[:-3])
    assert _described("other/cut.tfrecord", trained).startswith("5 of the 5 videos")
    pathlib.Path("other/none.tfrecord").write_bytes(b"no shard")
    assert _described("other/none.tfrecord", trained) == ""
    monkeypatch.setattr(shared_videos, "_MOST_READ", 10)
    assert _described("other/cut.tfrecord", trained) == ""


def test_the_log_warns_once(trained: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_videos, "_told", set())
    for _ in range(2):
        shared_videos.warn(open_data("train/*.tfrecord"), trained, "labelled")
        shared_videos.warn(open_data("other/*.tfrecord"), trained, "labelled")
    (told,) = caplog.messages
    assert told.startswith("--labelled=train/*.tfrecord: 2 of the 2 files are files of the training")


def test_objects_of_a_bucket_are_known_by_name(trained: str, bucket: str) -> None:
    for name in "ab":
        storage.write(f"{bucket}/train/{name}.tfrecord", pathlib.Path(f"train/{name}.tfrecord").read_bytes())
    assert _described(f"{bucket}/train/a.tfrecord", f"{bucket}/train/*").startswith("1 of the 1 files are files of")
    assert _described("train/a.tfrecord", f"{bucket}/train/*") == ""  # no bucket is listed for local files
