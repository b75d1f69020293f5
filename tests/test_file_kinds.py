"""Files are known by their first bytes, with what each is and which command or flag takes it."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import pathlib
import zipfile
import zlib

import made_videos
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yt8m import file_kinds
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


KINDS = {
    "npy": (_saved("save"), "NumPy array", "--array"),
    "npz": (_saved("savez"), ".npz", "--array"),
    "xlsx": (_zip("[Content_Types].xml"), "Office", "--table"),
    "zip": (_zip("a.txt"), "compressed by zip", "unzip"),
    "gzip": (gzip.compress(b"x" * 99), "gzip", "gunzip"),
    "zlib": (zlib.compress(b"x" * 99), "zlib", "without compression"),
    "bzip2": (bz2.compress(b"x"), "bzip2", "bunzip2"),
    "xz": (lzma.compress(b"x"), "xz", "unxz"),
    "html": (b"<!DOCTYPE html><html><body>404</body></html>", "HTML", "fetch"),
    "mark and html": (b"\xef\xbb\xbf\n<html>", "HTML", "fetch"),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS", "git lfs pull"),
    "pickle": (b"\x80\x04\x95\x0b\0\0\0", "pickle", ".npy"),
    "parquet": (b"PAR1\x15\x04", "Parquet", "--table"),
    "pdf": (b"%PDF-1.7", "PDF", ""),
}


@pytest.mark.parametrize(("content", "description", "remedy"), KINDS.values(), ids=KINDS)
def test_the_kind_of_a_file(content: bytes, description: str, remedy: str) -> None:
    kind = file_kinds.find_kind(content[: file_kinds.SAMPLE_BYTES])
    assert kind is not None
    assert description in kind.description
    assert remedy in kind.remedy
    assert not kind.is_video


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


def test_records_with_a_letter_of_a_transport_stream_are_records() -> None:
    payload = bytearray(0x147)
    payload[188 - 12] = ord("G")
    assert file_kinds.find_kind(framed(bytes(payload))[: file_kinds.SAMPLE_BYTES]) is None
    assert file_kinds.find_kind((b"G" + bytes(187)) * 3) is not None


@pytest.mark.parametrize("text", [b"", b"id,labels\na,b\n", b"{}", b"PK", b"\x1f"])
def test_text_and_beginnings_say_nothing(text: bytes) -> None:
    assert file_kinds.find_kind(text) is None
