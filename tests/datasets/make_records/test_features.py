"""Features of records: names that are refused, names of YouTube-8M, ranges, and files that are refused."""

from __future__ import annotations

import io
import os
import pathlib
import shlex
import zipfile

import numpy as np
import pytest
from own_clips import read, write_table

from yt8m.command_line import flags
from yt8m.datasets.make_records import RecordsConfig, make
from yt8m.errors import RunError, UsageError
from yt8m.records import manifest, shards
from yt8m.storage import pipes


@pytest.mark.parametrize("name", ["labels", "id", "segment_labels", "a\nb", " a", ""])
def test_names_that_records_cannot_hold_are_refused(tmp_path: pathlib.Path, name: str) -> None:
    np.savez(tmp_path / "0.npz", **{name: np.ones((3, 4), np.float32)})
    table = write_table(tmp_path / "clips.csv", [("a", "0.npz", "cat")])
    with pytest.raises(UsageError, match=r"the feature name .* (is reserved|is empty)"):
        make(RecordsConfig(table=table, out=str(tmp_path / "out")))


def test_the_printed_command_trains_on_the_records(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command must give the sizes of features that have names of YouTube-8M's features, but other sizes."""
    np.savez(tmp_path / "0.npz", rgb=np.ones((3, 4), np.float32), other=np.ones((3, 2), np.float32))
    table = write_table(tmp_path / "clips.csv", [("a", "0.npz", "cat")])
    out = str(tmp_path / "my data's")
    make(RecordsConfig(table=table, out=out, level="frame", splits=("train:1",)))
    program, command, *words = shlex.split(capsys.readouterr().out.splitlines()[-1])
    config = flags.train_config(words)
    assert (program, command, config.data.data_pattern) == ("yt8m", "train", f"{out}/frame/train/*.tfrecord")
    assert (config.data.feature_names, config.data.feature_sizes) == (("rgb", "other"), (4, 2))
    assert config.data.frame_features


def test_a_feature_that_is_named_twice_is_refused(tmp_path: pathlib.Path) -> None:
    np.savez(tmp_path / "0.npz", clip=np.ones((3, 4), np.float32))
    table = write_table(tmp_path / "clips.csv", [("a", "0.npz", "cat")])
    with pytest.raises(UsageError, match="'clip' is given twice"):
        make(RecordsConfig(table=table, out=str(tmp_path / "out"), feature_names=("clip", "clip")))


def test_each_feature_has_its_own_range(tmp_path: pathlib.Path) -> None:
    stream = np.random.default_rng(0)
    arrays = {name: stream.normal(size=(9, 4)).astype(np.float32) for name in ("fixed", "own", "exact")}
    np.savez(tmp_path / "t.npz", id=np.array(list("abcdefghi")), labels=np.full(9, "x"), **arrays)
    files = {"table": str(tmp_path / "t.npz"), "out": str(tmp_path / "o")}
    make(RecordsConfig(**files, bits=8, ranges=("-2:2", "learned", "floats"), splits=("train:1",)))
    data = manifest.find([str(path) for path in tmp_path.glob("o/video/train/*.tfrecord")]).data
    assert data is not None
    own = float(arrays["own"].min()), float(arrays["own"].max())
    assert [feature.range for feature in data.features] == [(-2.0, 2.0), pytest.approx(own), None]
    records = [one for path in tmp_path.glob("o/video/train/*.tfrecord") for one in shards.read_shard(str(path))]
    (record,) = [found for found in map(shards.parse, records) if found.id() == b"c"]
    np.testing.assert_array_equal(np.array(record.context["exact"].values(), np.float32), arrays["exact"][2])


def test_ranges_of_a_table_without_training_videos_are_those_of_its_videos(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new test set; its values were clipped to -2 to 2, and a training on no file was proposed."""
    values = np.linspace(7, 13, 36, dtype=np.float32).reshape(9, 4)
    np.savez(tmp_path / "t.npz", id=np.array(list("abcdefghi")), labels=np.full(9, "x"), own=values)
    make(RecordsConfig(table=str(tmp_path / "t.npz"), out=str(tmp_path / "o"), bits=8, splits=("train:0", "test:1")))
    assert capsys.readouterr().out.endswith(f"yt8m eval --model=RUN --data='{tmp_path}/o/video/test/*.tfrecord'\n")
    data = manifest.find([str(path) for path in tmp_path.glob("o/video/test/*.tfrecord")]).data
    assert data is not None
    assert [feature.range for feature in data.features] == [(7.0, 13.0)]


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """An NPZ file of half a megabyte that unpacks to 512 MB."""
    path = tmp_path_factory.mktemp("bomb") / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("features.npy", "w") as file:
        np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": (1 << 27, 1)})
        for _ in range(1 << 9):
            file.write(bytes(1 << 20))
    return path


def test_videos_whose_file_is_a_pipe_or_a_zip_bomb_are_left_out(tmp_path: pathlib.Path, bomb: pathlib.Path) -> None:
    np.save(tmp_path / "good.npy", np.ones(4, np.float32))
    os.mkfifo(tmp_path / "pipe.npy")
    os.link(bomb, tmp_path / "bomb.npz")
    os.symlink(tmp_path / "loop.npy", tmp_path / "loop.npy")
    names = ("good.npy", "pipe.npy", "bomb.npz", "loop.npy")
    table = write_table(tmp_path / "table.csv", [(name, name, "cat") for name in names])
    summary = make(RecordsConfig(table=table, out=str(tmp_path / "out"), max_bad_rows=3))
    reasons = summary["rows left out"]
    assert reasons.keys() == {"2", "3", "4"}
    assert "is a pipe" in reasons["2"]
    assert "unpack to 512 MB" in reasons["3"]
    assert "Too many levels of symbolic links" in reasons["4"]


def test_a_table_or_an_array_that_is_a_pipe_or_a_zip_bomb_is_refused(
    tmp_path: pathlib.Path, bomb: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipes, "WRITER_SECONDS", 0.1)
    table = write_table(tmp_path / "table.csv", [("a", "a.npy", "cat")])
    os.mkfifo(tmp_path / "pipe.csv")
    os.mkfifo(tmp_path / "pipe.npy")
    pipe, array = (str(tmp_path / name) for name in ("pipe.csv", "pipe.npy"))
    for paths, error, what in (
        ({"table": str(bomb)}, RunError, "unpack to 512 MB"),
        ({"table": table, "array": str(bomb)}, RunError, "unpack to 512 MB"),
        ({"table": pipe}, UsageError, r"--table: .*pipe\.csv: .*pipe, .*no program"),
        ({"table": table, "array": array}, UsageError, r"--array: .*pipe\.npy: .*pipe, .*no program"),
    ):
        with pytest.raises(error, match=what):
            make(RecordsConfig(**paths, out=str(tmp_path / "out")))


def test_a_row_without_times_may_have_one_vector(tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "vector.npy", np.ones(4, np.float32))
    np.save(tmp_path / "frames.npy", np.zeros((5, 4), np.float32))
    rows = [("a", "vector.npy", "cat", "", ""), ("b", "frames.npy", "dog", "1", "")]
    table = write_table(tmp_path / "clips.csv", rows, "id,path,labels,start,end")
    make(RecordsConfig(table=table, out=str(tmp_path / "out")))
    found = read(tmp_path / "out" / "video")
    assert [found[name][1].context["features"].values() for name in "ab"] == [[1.0] * 4, [0.0] * 4]
    write_table(tmp_path / "clips.csv", [("a", "vector.npy", "cat", "", "2")], "id,path,labels,start,end")
    with pytest.raises(RunError, match=r"row 1 \(line 2\): .*start or .*end\b.*feature features .*no frames"):
        make(RecordsConfig(table=table, out=str(tmp_path / "other")))


def test_a_frame_at_the_start_is_taken_and_one_at_the_end_is_not(tmp_path: pathlib.Path) -> None:
    np.save(tmp_path / "frames.npy", np.arange(50, dtype=np.float32)[:, np.newaxis])
    table = write_table(tmp_path / "t.csv", [("a", "frames.npy", "cat", "0.28", "0.56")], "id,path,labels,start,end")
    make(RecordsConfig(table=table, out=str(tmp_path / "out"), level="frame", frames_per_second=25))
    ((_, record),) = read(tmp_path / "out" / "frame").values()
    assert [frame.values() for frame in record.lists["features"]] == [[number] for number in range(7, 14)]


def test_videos_whose_file_is_damaged_are_left_out(tmp_path: pathlib.Path) -> None:
    values = np.random.default_rng(0).integers(0, 9, (50, 4)).astype(np.float32)
    np.savez_compressed(tmp_path / "good.npz", clip=values)
    content = bytearray((tmp_path / "good.npz").read_bytes())
    content[80:120] = bytes(byte ^ 255 for byte in content[80:120])  # within the compressed bytes
    (tmp_path / "damaged.npz").write_bytes(content)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 44, 4)})
    (tmp_path / "endless.npy").write_bytes(header.getvalue())
    names = ("good.npz", "damaged.npz", "endless.npy")
    table = write_table(tmp_path / "table.csv", [(name, name, "cat") for name in names])
    reasons = make(RecordsConfig(table=table, out=str(tmp_path / "out"), max_bad_rows=2))["rows left out"]
    assert reasons.keys() == {"2", "3"}
    assert "damaged.npz is not" in reasons["2"]
    assert "endless.npy cannot be read: Unable to allocate 256" in reasons["3"]
