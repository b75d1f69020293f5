"""Files are known by their first bytes, with what each is and which command or flag takes it."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pathlib
import re
import struct
import tarfile
import zipfile
import zlib

import made_videos
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reader_records import video_record, write_shard

from yt8m import file_kinds, storage
from yt8m.command_line import cli
from yt8m.records.shards import framed


def _zip(name: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, b"x")
    return file.getvalue()


def _saved(save: str) -> bytes:
    file = io.BytesIO()
    getattr(np, save)(file, np.ones(3))
    return file.getvalue()


def _tar() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("a.csv"))
    return file.getvalue()


def _safetensors() -> bytes:
    header = b'{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    return struct.pack("<Q", len(header)) + header + bytes(4)


_LZ4 = b"\x04\x22\x4d\x18\x64\x40\xa7" + b"\x08\0\0\0\x1fx\x01\0"
KINDS = {
    "npy": (_saved("save"), "NumPy array", "--array"),
    "npz": (_saved("savez"), ".npz", "--array"),
    "npz with a slash in a name": (_zip("a/b.npy"), ".npz", "--array"),
    "xlsx": (_zip("[Content_Types].xml"), "Office", "--table"),
    "zip": (_zip("a.txt"), "compressed by zip", "unzip"),
    "gzip": (gzip.compress(b"x" * 99), "gzip", "gunzip"),
    "zlib": (zlib.compress(b"x" * 99), "zlib", "without compression"),
    "bzip2": (bz2.compress(b"x"), "bzip2", "bunzip2"),
    "lzma": (lzma.compress(b"x" * 99, lzma.FORMAT_ALONE), "lzma", "unlzma"),
    "lz4": (_LZ4, "lz4", "unlz4"),
    "lz4 of the kernel": (b"\x02\x21\x4c\x18\x1d\0\0\0" + b"\x1fx\x01\0", "lz4", "unlz4"),
    "zstd": (b"\x28\xb5\x2f\xfd\x04\x58\x99\0\0", "zstd", "unzstd"),
    "snappy": (b"\xff\x06\0\0sNaPpY\0\x0c\0\0", "snappy", "snzip"),
    "xz": (lzma.compress(b"x"), "xz", "unxz"),
    "html": (b"<!DOCTYPE html><html><body>404</body></html>", "HTML", "fetch"),
    "mark and html": (b"\xef\xbb\xbf\n<html>", "HTML", "fetch"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS", "git lfs pull"),
    "pickle": (b"\x80\x04\x95\x0b\0\0\0", "pickle", ".npy"),
    "parquet": (b"PAR1\x15\x04", "Parquet", "--table"),
    "pdf": (b"%PDF-1.7", "PDF", ""),
    "torch": (_zip("w/data.pkl"), "PyTorch", "onnx:FILE"),
    "torch script": (_zip("model/code/__torch__.py"), "PyTorch", "onnx:FILE"),
    "torch with a mark of its form": (_zip("w/.format_version"), "PyTorch", "onnx:FILE"),
    "torch before 1.6": (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M", "PyTorch", "onnx:FILE"),
    "safetensors": (_safetensors(), "safetensors", "hf:NAME"),
    "keras": (_zip("metadata.json"), "Keras", "saved_model:FOLDER"),
    "hdf5": (b"\x89HDF\r\n\x1a\n\0\0", "HDF5", ".npy"),
    "first line of hdf5": (b"\x89HDF\r\n", "HDF5", ".npy"),
    "tflite": (b"\x1c\0\0\0TFL3\x14\0", "TensorFlow Lite", "saved_model:FOLDER"),
    "gguf": (b"GGUF\x03\0\0\0\0\0", "GGUF", "hf:NAME"),
    "workbook of 2003": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0", "Office", "--table"),
    "utf-16": ("id,labels\na,x\n".encode("utf-16"), "UTF-16", "--table"),
    "utf-16 without a mark": ("id,labels\na,x\n".encode("utf-16-le"), "UTF-16", "--table"),
    "sqlite": (b"SQLite format 3\0\x10\0", "SQLite", "--table"),
    "avro": (b"Obj\x01\x04\x16avro", "Avro", "--table"),
    "matlab": (b"MATLAB 5.0 MAT-file, Platform: posix\0\0", "MATLAB", ".npy"),
    "notebook": (b'{\n "cells": [\n  {\n   "cell_type": "code",', "notebook", "table"),
    "tar": (_tar(), "tar", "tar -xf"),
    "7-zip": (b"7z\xbc\xaf\x27\x1c\0\x04", "7-Zip", "7z x"),
    "rar": (b"Rar!\x1a\x07\x01\0", "RAR", "unrar"),
    "heic": (b"\0\0\0\x18ftypheic\0\0", "picture", "video"),
    "webp": (b"RIFF\x24\0\0\0WEBPVP8 ", "picture", "video"),
    "onnx": (b"\x08\x08\x42\x04\x0a\x00\x10\x0d\x3a\xcd\x02\x0a\x37", "ONNX", "--model"),
    "onnx of a program": (b"\x08\x07\x12\x09paddle 2x\x3a\xb0\x0a\x0a\x03", "ONNX", "--model"),
    "onnx whose graph comes first": (b"\x08\x09\x3a\x85\x04\x0a\x0f\x0a\x01x", "ONNX", "--model"),
}


@pytest.mark.parametrize(("content", "description", "remedy"), KINDS.values(), ids=KINDS)
def test_the_kind_of_a_file(content: bytes, description: str, remedy: str) -> None:
    kind = file_kinds.find_kind(content[: file_kinds.SAMPLE_BYTES])
    assert kind is not None
    assert description in kind.description
    assert remedy in kind.remedy
    assert not kind.is_video


@pytest.mark.parametrize(
    "content", [b'{"cells": 1, "nuclei": 0, "id": "v0"}\n', b'{"cells": [{"id": "v0", "labels": ["cat"]}]}']
)
def test_json_with_a_key_cells_is_no_notebook(content: bytes) -> None:
    assert file_kinds.find_kind(content) is file_kinds.TEXT


@pytest.mark.parametrize("ending", ["mp4", "mkv", "webm", "avi", "mov"])
def test_a_video_is_known(ending: str, tmp_path: pathlib.Path) -> None:
    path = tmp_path / f"a.{ending}"
    made_videos.write(path, made_videos.shape(made_videos.KINDS[0], seed=0), None, 1.0)
    kind = file_kinds.find_kind(path.read_bytes()[: file_kinds.SAMPLE_BYTES])
    assert kind is not None
    assert kind.is_video


@given(st.binary(max_size=2000))
def test_records_have_no_other_kind(payload: bytes) -> None:
    assert file_kinds.find_kind(framed(payload)[: file_kinds.SAMPLE_BYTES]) is None


@pytest.mark.parametrize("mark", [b"\x04\x22\x4d\x18", b"\x02\x21\x4c\x18", b"\x1f\x8b", b"\x5d", b"\x1f\x8b\x05"])
def test_a_length_that_looks_like_a_mark_is_a_length(mark: bytes) -> None:
    start = mark.ljust(8, b"\0") + b"crc.\n"
    assert file_kinds.find_kind(start) is None
    assert file_kinds.find_kind(start, may_be_records=True) is file_kinds.RECORDS


def test_records_with_a_letter_of_a_transport_stream_are_records() -> None:
    payload = bytearray(0x147)
    payload[188 - 12] = ord("G")
    assert file_kinds.find_kind(framed(bytes(payload))[: file_kinds.SAMPLE_BYTES]) is None
    assert file_kinds.find_kind((b"G" + bytes(187)) * 3) is not None


@pytest.mark.parametrize("start", [b"", b"PK", b"\x1f", b"\xff\xfei\0d\0"])
def test_short_beginnings_say_nothing(start: bytes) -> None:
    assert file_kinds.find_kind(start) is None


@pytest.mark.parametrize("text", ["car_free;Straße\n0;a\n", "vid,wide,Größe\n"])
def test_a_text_in_another_code_is_no_video(text: str) -> None:
    assert file_kinds.find_kind(text.encode("cp1252")) is None


@pytest.mark.parametrize(
    "start",
    [
        b"id,labels\na,b\n",
        b"{}",
        b"PAR1,PAR2\n1,2",
        b"GIF8,a\n",
        b"x^a,b\n",
        b"abcdftyp,1\n",
        "id\nGr\u00f6".encode()[:-1],
    ],
)
def test_text_is_text_whatever_it_begins_with(start: bytes) -> None:
    assert file_kinds.find_kind(start) is file_kinds.TEXT


@given(st.binary(max_size=2000))
def test_records_are_known_where_they_are_not_expected(payload: bytes) -> None:
    start = framed(b"\n" + payload)[: file_kinds.SAMPLE_BYTES]
    assert file_kinds.find_kind(start, may_be_records=True) is file_kinds.RECORDS


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with a file of each kind, an export, a run and a folder of videos."""
    folder = tmp_path_factory.mktemp("kinds")
    made_videos.write(folder / "a.mp4", made_videos.shape(made_videos.KINDS[0], seed=0), None, 1.0)
    (folder / "a.mp4").rename(folder / "video")
    np.save(folder / "array.npy", np.ones((2, 3)))
    (folder / "array.npy").rename(folder / "array")
    (folder / "onnx").write_bytes(b"\x08\x07\x12\x07tf2onnx\x1a\x0b1.17.0 None" + bytes(range(256)))
    (folder / "page").write_bytes(KINDS["html"][0])
    write_shard(folder / "records", [video_record(id=[b"a"], labels=[0], mean_rgb=[1.0])])
    (folder / "table").write_text("id,labels\na,x\nb,y\n")
    for name, files in (("export", ["saved_model.pb"]), ("run", ["config.json"])):
        (folder / name).mkdir()
        for file in files:
            (folder / name / file).write_text("{}")
    (folder / "videos").mkdir()
    (folder / "videos/a.mp4").write_bytes((folder / "video").read_bytes())
    return folder


NETWORKS = {"torch": "PyTorch", "safetensors": "safetensors", "keras": "Keras", "first line of hdf5": "HDF5"}
# Doors that want a model, weights or a network of features, with FILE for a file that is none.
NETWORK_DOORS = (
    "predict --model=FILE records",
    "eval --model=FILE --data=records",
    "train --data=records --train_dir=out --init_from=FILE",
    "train --data=records --train_dir=out --teacher=FILE",
    "export --model=FILE --out=out",
    "report FILE",
    "extract --videos=video.mp4 --labels=folder --out=out --extractors=FILE",
    "extract --videos=video.mp4 --labels=folder --out=out --extractors=onnx:FILE",
    "extract --videos=video.mp4 --labels=folder --out=out --extractors=saved_model:FILE",
    "extract --videos=video.mp4 --labels=folder --out=out --extractors=hf:FILE",
)


@pytest.mark.parametrize("kind", NETWORKS)
@pytest.mark.parametrize("door", NETWORK_DOORS)
def test_each_door_of_models_says_what_takes_a_network(
    door: str, kind: str, kinds: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(kinds)
    pathlib.Path("net").write_bytes(KINDS[kind][0])
    pathlib.Path("video.mp4").write_bytes(pathlib.Path("video").read_bytes())
    assert cli.main(door.replace("FILE", "net").split()) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert NETWORKS[kind] in message
    assert "--extractors=onnx:FILE" in message
    assert len(re.findall(r"\bnet\b", message)) == 1, "the path is said once"


def test_an_onnx_file_in_place_of_an_extractor(
    kinds: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(kinds)
    assert cli.main(["extract", "--videos=video", "--labels=folder", "--out=out", "--extractors=onnx"]) == 2
    assert "onnx:PATH" in capsys.readouterr().err
    pathlib.Path("net.onnx").write_bytes(pathlib.Path("onnx").read_bytes())
    assert cli.main(["extract", "--videos=video", "--labels=folder", "--out=out", "--extractors=net.onnx"]) == 2
    assert "write onnx:net.onnx" in capsys.readouterr().err


NAMED = {"video": "MP4", "array": "NumPy", "onnx": "ONNX", "page": "HTML", "records": "TFRecord", "table": "text"}
FOLDERS = {"export": ("SavedModel", "--model"), "run": ("run", "--model"), "videos": ("videos", "--videos=")}
# {door: (the words of a command with FILE for the file, the kind that it takes, the ending that it wants)}
DOORS = {
    "records": ("score --predictions=table --data=FILE", "records", ""),
    "predictions": ("score --predictions=FILE --data=records", "table", ""),
    "table": ("make-records --table=FILE --array=array --out=out", "table", ".csv"),
    "array": ("make-records --table=table.csv --array=FILE --out=out", "array", ""),
    "vocabulary": ("make-records --table=table.csv --array=array --out=out --vocabulary=FILE", "table", ""),
    "answers": ("make-records --table=table.csv --array=array --out=out --labels=FILE", "table", ""),
    "model": ("predict --model=FILE records", "onnx", ""),
}


@pytest.mark.parametrize("kind", NAMED)
@pytest.mark.parametrize("door", DOORS)
def test_each_door_says_what_another_file_is(
    door: str, kind: str, kinds: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words, taken, ending = DOORS[door]
    if kind == taken:
        return
    monkeypatch.chdir(kinds)
    for file in ("table.csv", f"{kind}{ending}"):
        pathlib.Path(file).write_bytes((kinds / file.partition(".")[0]).read_bytes())
    assert cli.main(words.replace("FILE", f"{kind}{ending}").split()) in (1, 2)
    assert NAMED[kind] in capsys.readouterr().err


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_in_place_of_records_is_named(
    folder: str, kinds: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(kinds)
    for words in (["score", "--predictions=table"], ["train"], ["audit", "--out=out"], ["verify"], ["inspect"]):
        assert cli.main([*words, f"--data={folder}"]) == 2
        said = capsys.readouterr().err
        assert all(word in said for word in FOLDERS[folder]), said


def test_the_name_of_a_checkpoint_is_no_model(
    kinds: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.ckpt-20.index").write_text("")
    assert cli.main(["predict", f"--model={tmp_path}/model.ckpt-20", f"{kinds}/records"]) == 2
    assert "checkpoint" in capsys.readouterr().err


def test_what_cannot_be_read_has_no_kind(tmp_path: pathlib.Path) -> None:
    assert storage.kind_of(tmp_path) is None
    assert storage.kind_of(tmp_path / "missing") is None
    assert storage.kind_of("/dev/zero") is None
    assert storage.folder_kind(tmp_path) is None


@pytest.mark.parametrize(
    "program", ["eval --data=KINDS/records --model=", "export --out=x --model=", "serve --port=0 --model=", "report "]
)
def test_a_folder_in_place_of_a_run_is_named(
    program: str, kinds: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs/first").mkdir(parents=True)
    (tmp_path / "runs/first/config.json").write_text("{}")
    (tmp_path / "data/video/train").mkdir(parents=True)
    (tmp_path / "data/video/train/a.tfrecord").write_bytes((kinds / "records").read_bytes())
    for folder, said in (("runs", f"name one, such as {tmp_path}/runs/first"), ("data", "but of records")):
        assert cli.main(f"{program}{tmp_path}/{folder}".replace("KINDS", str(kinds)).split()) == 2
        assert said in capsys.readouterr().err


def test_an_export_has_no_report(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("saved_model", "inference_model"):
        (tmp_path / name).mkdir()
    (tmp_path / "config.json").write_text("{}")
    assert storage.folder_kind(tmp_path) == file_kinds.EXPORT
    assert cli.main(["report", str(tmp_path)]) == 2
    assert "name the run" in capsys.readouterr().err
