"""A shard that is named in two ways is read once by every program, and the log says so once."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Callable

import cases
import fault_shards
import pytest

from yt8m import read_records, storage
from yt8m.bulk.bulk_config import InferBulk, with_absolute_paths
from yt8m.command_line.cli import main
from yt8m.config.data_config import DataConfig
from yt8m.readers.input_check import check_input
from yt8m.records import manifest
from yt8m.records.opened_data import open_data
from yt8m.storage import identity


@pytest.fixture
def shards(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    (tmp_path / "a").mkdir()
    for name in "xy":
        fault_shards.write(tmp_path / f"a/{name}.tfrecord", fault_shards.sound("video", 6, name))
    (tmp_path / "links").mkdir()
    (tmp_path / "links/hard.tfrecord").hardlink_to(tmp_path / "a/x.tfrecord")
    (tmp_path / "links/soft.tfrecord").symlink_to(tmp_path / "a/x.tfrecord")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(identity, "_told", set())
    return tmp_path / "a"


SPELLINGS = {
    "dot": "a/*.tfrecord,./a/x.tfrecord",
    "absolute": "a/*.tfrecord,{folder}/a/x.tfrecord",
    "up": "a/*.tfrecord,a/../a/x.tfrecord",
    "again": "a/x.tfrecord,a/y.tfrecord,a/x.tfrecord",
    "patterns": "a/*.tfrecord,a/x*",
    "links": "a/*.tfrecord,links/*.tfrecord",
    "folder": "a/*.tfrecord,b/*.tfrecord",
}


def bulk_data(pattern: str) -> str:
    """The pattern of a bulk job, whose workers may run in another folder."""
    return with_absolute_paths(InferBulk(model="m", data=pattern, out="o")).data


READERS: dict[str, Callable[[str], int]] = {
    "open_data": lambda pattern: sum(map(manifest.count_records, open_data(pattern).files)),
    "glob": lambda pattern: sum(map(manifest.count_records, storage.glob(pattern))),
    "named_files": lambda pattern: sum(map(manifest.count_records, storage.named_files(pattern))),
    "bulk": lambda pattern: sum(map(manifest.count_records, open_data(bulk_data(pattern)).files)),
    "queue": lambda pattern: len(fault_shards.ids_read(fault_shards.queue("video", pattern, num_epochs=1))),
    "read_records": lambda pattern: sum(len(batch.ids) for batch in read_records(pattern)),
}
PAIRS = list(itertools.product(READERS, SPELLINGS))


@pytest.mark.promise("I12")
@pytest.mark.parametrize(
    ("reader", "spelling"), cases.only(PAIRS, [p for p in PAIRS if p[0] != "queue" or p[1] == "links"])
)
def test_each_record_counts_once(
    shards: pathlib.Path, spelling: str, reader: str, caplog: pytest.LogCaptureFixture
) -> None:
    pattern = SPELLINGS[spelling].format(folder=shards.parent)
    assert READERS[reader](pattern) == 12
    (told,) = [line for line in caplog.messages if "each file is read once" in line]
    assert "x.tfrecord" in told
    assert READERS[reader](pattern) == 12
    assert sum("read once" in line for line in caplog.messages) == 1


def test_files_of_one_content_are_not_one_file(shards: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    (shards / "copy.tfrecord").write_bytes((shards / "x.tfrecord").read_bytes())
    assert READERS["open_data"]("a/*.tfrecord") == 18
    assert caplog.messages == []


@pytest.mark.promise("I12")
def test_a_manifest_may_list_each_name(shards: pathlib.Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It is checked by name; and the name that is not read is not missing."""
    (shards / "z.tfrecord").hardlink_to(shards / "x.tfrecord")
    for _ in range(2):
        assert main(["verify", "a/x.tfrecord", "a/y.tfrecord", "a/z.tfrecord", "--manifest=a/manifest.json"]) == 0
        assert capfd.readouterr().err.count("a/z.tfrecord is the file a/x.tfrecord") == 1
    queue = fault_shards.queue("video", "a/*.tfrecord", num_epochs=1)
    data = DataConfig(data_pattern="a/*.tfrecord", feature_sizes=(3, 2), num_classes=fault_shards.CLASSES)
    check_input(queue, data)
    assert "gone" not in capfd.readouterr().err


def test_a_prediction_file_that_is_named_twice_is_said(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is averaged twice all the same: its weight may be meant."""
    for name, score in (("a", 0.9), ("b", 0.3)):
        (tmp_path / f"{name}.csv").write_text(f"VideoId,LabelConfidencePairs\nv,1 {score}\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "a.csv")
    for files, warned in (("a,b", 0), ("a,b,a", 1), ("a,link,b", 1)):
        caplog.clear()
        named = ",".join(f"{tmp_path}/{name}.csv" for name in files.split(","))
        assert main(["ensemble", f"--predictions={named}", f"--out={tmp_path}/out.csv"]) == 0
        said = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert len(said) == warned
        assert all(f"a.csv is {tmp_path}/a.csv" in text or "link.csv is" in text for text in said)
        assert all("--weights" in text for text in said)
    assert (tmp_path / "out.csv").read_text().splitlines()[1] == "v,1 0.7"


def test_a_run_that_is_named_twice_is_said(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "run")
    main(["ensemble", f"--train_dir={tmp_path}/run,{tmp_path}/link", f"--out={tmp_path}/joined"])  # no run is in it
    (text,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "--train_dir" in text
    assert f"{tmp_path}/link is {tmp_path}/run" in text
