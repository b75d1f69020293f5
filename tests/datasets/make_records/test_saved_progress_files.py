"""A file of features that was replaced is noticed, even by an older one; files may be removed."""

from __future__ import annotations

import os
import pathlib

import numpy as np
import pytest
from own_clips import read, write_table

from yt8m.datasets.make_records import RecordsConfig, make
from yt8m.errors import UsageError


def test_files_of_the_same_size_and_time_are_noticed(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As `tar`, `rsync -t` and `cp -p` leave them: a file of features, and the table."""

    def put(name: str, path: pathlib.Path) -> None:
        os.utime(path, (1e9, 1e9))
        path.replace(tmp_path / name)

    def tables(label: str) -> pathlib.Path:
        return pathlib.Path(write_table(tmp_path / "new.csv", [(f"v{i}", f"{i}.npy", label) for i in range(3)]))

    def vectors(value: float) -> pathlib.Path:
        np.save(tmp_path / "new.npy", np.full(2, value, np.float32))
        return tmp_path / "new.npy"

    for number in range(3):
        put(f"{number}.npy", vectors(number))
    put("t.csv", tables("cat"))
    flags = {"table": str(tmp_path / "t.csv"), "out": str(tmp_path / "out"), "splits": ("train:1",)}
    make(RecordsConfig(**flags))
    put("1.npy", vectors(1))  # the same content
    make(RecordsConfig(**flags))
    assert capsys.readouterr().err.count("already has all these records; nothing was written") == 1
    for name, path in (("1.npy", vectors(7)), ("t.csv", tables("dog"))):
        put(name, path)
        with pytest.raises(UsageError, match=r"out/video .*other files.*--overwrite"):
            make(RecordsConfig(**flags))
        make(RecordsConfig(**flags, overwrite=True))


def test_files_may_be_removed_and_replaced_ones_are_noticed(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", np.full(2, number, np.float32))
    np.save(tmp_path / "old.npy", np.full(2, 9, np.float32))
    os.utime(tmp_path / "old.npy", (1e9, 1e9))
    table = write_table(tmp_path / "t.csv", [(f"v{number}", f"{number}.npy", "cat") for number in range(3)])
    flags = {"table": table, "out": str(tmp_path / "out"), "splits": ("train:1",)}
    make(RecordsConfig(**flags))
    (tmp_path / "2.npy").replace(tmp_path / "away.npy")
    make(RecordsConfig(**flags))
    (tmp_path / "away.npy").replace(tmp_path / "2.npy")
    make(RecordsConfig(**flags))
    assert capsys.readouterr().err.count("already has all these records; nothing was written") == 2
    (tmp_path / "old.npy").replace(tmp_path / "1.npy")
    with pytest.raises(UsageError, match=r"out/video .*other files.*--overwrite"):
        make(RecordsConfig(**flags))
    make(RecordsConfig(**flags, overwrite=True))
    found = {name: record.context["features"].values() for name, (_, record) in read(tmp_path / "out/video").items()}
    assert found == {"v0": [0.0, 0.0], "v1": [9.0, 9.0], "v2": [2.0, 2.0]}


@pytest.mark.parametrize("name", ["t.csv", "x.npy", "decisions.csv"])
def test_a_change_anywhere_in_a_large_file_is_noticed(tmp_path: pathlib.Path, name: str) -> None:
    """A label of a table, a value of an array or a decision: samples of the content would not see it."""
    ids = [f"video-{i:0120d}" for i in range(1000)]
    write_table(tmp_path / "t.csv", [(each, ("cat", "dog")[i % 2]) for i, each in enumerate(ids)], "id,labels")
    np.save(tmp_path / "x.npy", np.ones((len(ids), 40), np.float32))
    write_table(tmp_path / "decisions.csv", [(each, "cat", "wrong", "no") for each in ids], "video,class,kind,decision")
    flags = {key: str(tmp_path / file) for key, file in (("table", "t.csv"), ("array", "x.npy"), ("out", "out"))}
    config = RecordsConfig(**flags, corrections=str(tmp_path / "decisions.csv"), splits=("train:1",))
    make(config)
    _change_at(tmp_path / name, 0.3)
    with pytest.raises(UsageError, match=r"out/video .*other files.*--overwrite"):
        make(config)


def test_a_change_anywhere_in_a_large_file_of_a_video_is_noticed(tmp_path: pathlib.Path) -> None:
    for number in range(3):
        np.save(tmp_path / f"{number}.npy", np.full(100_000, number, np.float32))
    table = write_table(tmp_path / "t.csv", [(f"v{number}", f"{number}.npy", "cat") for number in range(3)])
    config = RecordsConfig(table=table, out=str(tmp_path / "out"), splits=("train:1",))
    make(config)
    _change_at(tmp_path / "1.npy", 0.3)
    with pytest.raises(UsageError, match=r"out/video .*other files.*--overwrite"):
        make(config)


def _change_at(path: pathlib.Path, share: float) -> None:
    """Changes the label or the value that lies there in a file; its size and its time stay."""
    status, content = path.stat(), bytearray(path.read_bytes())
    place = int(len(content) * share)
    if path.suffix == ".npy":
        content[place] ^= 1
    else:
        place, old = max((content.find(word, place), word) for word in (b"cat", b"dog"))
        content[place : place + 3] = b"dog" if old == b"cat" else b"cat"
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
