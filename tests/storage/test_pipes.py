"""Pipes, sockets and devices that are named as input files."""

from __future__ import annotations

import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading

import numpy as np
import pytest

import yt8m
from yt8m import storage
from yt8m.command_line import cli
from yt8m.errors import RunError
from yt8m.records import shards
from yt8m.storage import copies, pipes

TABLE = "id,labels\na,cat\nb,dog\n"


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe without a writer is given up at once."""
    monkeypatch.setattr(pipes, "WRITER_SECONDS", 0.1)


def test_a_pipe_is_read_by_many_readers(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    content = os.urandom(300_000)  # more than a pipe holds
    writer = threading.Thread(target=path.write_bytes, args=[content])
    writer.start()
    assert storage.read_start(path, 10) == content[:10]
    with storage.open_read(path) as file:
        assert file.seek(299_990) == 299_990
        assert file.read() == content[-10:]
    assert pathlib.Path(copies.file_copy(str(path))).read_bytes() == content
    writer.join()
    pipes.forget()


def test_a_pipe_that_nobody_writes_is_named(tmp_path: pathlib.Path, patience: None) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(RunError, match=r"pipe\.csv: .*\bpipe\b.*\b0\.1 s"):
        storage.read_bytes(tmp_path / "pipe.csv")


def test_devices_and_sockets_are_refused_except_the_empty_one(tmp_path: pathlib.Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "s"))
        with pytest.raises(RunError, match=r"/s: .*\bsocket\b"):
            storage.read_bytes(tmp_path / "s")
    for path in ("/dev/zero", "/dev/urandom"):
        with pytest.raises(RunError, match=rf"{path}: .*\bdevice\b"):
            storage.read_start(path, 1)
        with pytest.raises(RunError, match=rf"{path}: .*\bdevice\b"):
            copies.file_copy(path)
    assert storage.read_bytes("/dev/null") == b""


@pytest.fixture
def inputs(tmp_path: pathlib.Path) -> pathlib.Path:
    """A table, its features and its classes."""
    (tmp_path / "t.csv").write_text(TABLE)
    (tmp_path / "v.csv").write_text("index,name\n0,cat\n1,dog\n")
    np.save(tmp_path / "a.npy", np.arange(6, dtype=np.float32).reshape(2, 3))
    return tmp_path


def test_what_a_shell_substitutes_is_read(inputs: pathlib.Path) -> None:
    words = "--table=<(cat t.csv) --array=<(cat a.npy) --vocabulary=<(cat v.csv) --splits=train:1 --shards=1 --out=out"
    command = f"{sys.executable} -c 'from yt8m.command_line import cli; cli.main()' make-records {words}"
    done = subprocess.run(["bash", "-c", command], cwd=inputs, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.partition("error: ")[2]) == (0, "")
    (shard,) = (inputs / "out/video/train").glob("*.tfrecord")
    records = [shards.parse(record) for record in shards.read_shard(str(shard))]
    found = {record.id(): list(record.context["features"].values()) for record in records}
    assert found == {b"a": [0, 1, 2], b"b": [3, 4, 5]}


def test_paths_in_a_piped_table_begin_in_the_current_folder(
    inputs: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        np.save(inputs / f"{name}.npy", np.ones(3, np.float32))
    monkeypatch.chdir(inputs)
    reading, writing = os.pipe()
    os.write(writing, b"id,labels,path\na,cat,a.npy\nb,dog,b.npy\n")
    os.close(writing)
    words = [f"--table=/dev/fd/{reading}", "--splits=train:1", "--shards=1", "--out=made"]
    assert cli.main(["make-records", *words]) == 0
    os.close(reading)
    pipes.forget()
    (shard,) = (inputs / "made/video/train").glob("*.tfrecord")
    assert {shards.parse(record).id() for record in shards.read_shard(str(shard))} == {b"a", b"b"}


def test_a_pipe_that_is_filled_again_is_read_again(inputs: pathlib.Path) -> None:
    """By the next call from Python: the process of a command has ended by then."""
    pipe = inputs / "pipe.csv"
    os.mkfifo(pipe)
    words = {"array": str(inputs / "a.npy"), "splits": "train:1", "dry_run": True}
    for count in (1, 2):
        table = "id,labels\n" + "".join(f"{name},class {place % count}\n" for place, name in enumerate("ab"))
        writer = threading.Thread(target=pipe.write_text, args=[table])
        writer.start()
        understood = yt8m.make_records(pipe, inputs / "out", **words)["understood"]
        assert f"2 videos, {count} class" in understood
        writer.join()
    assert not list(pathlib.Path(tempfile.gettempdir()).glob("yt8m-pipes-*"))


FLAGS = ["table", "array", "vocabulary", "labels", "corrections"]


@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("kind", ["a pipe", "a socket", "a device"])
def test_every_table_that_cannot_be_read_is_named(
    inputs: pathlib.Path, patience: None, capsys: pytest.CaptureFixture[str], flag: str, kind: str
) -> None:
    path = inputs / "odd.csv"
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    else:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
    words = {"table": inputs / "t.csv", "array": inputs / "a.npy", "out": inputs / "out"} | {flag: path}
    assert cli.main(["make-records", *(f"--{name}={value}" for name, value in words.items())]) in (1, 2)
    assert f"odd.csv: it is {kind}" in capsys.readouterr().err
    assert not (inputs / "out").exists()
