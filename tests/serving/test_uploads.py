"""The files of a form, and bodies in gzip, whatever bytes they are."""

from __future__ import annotations

import contextlib
import gzip

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st

from yt8m.serving.bodies import RefusedError
from yt8m.serving.uploads import FORM, Upload, files_of_form, unpack_gzip


def _form(files: list[tuple[str, bytes]], **fields: str) -> tuple[bytes, str]:
    sent = requests.Request("POST", "http://x", files=[("video", file) for file in files], data=fields).prepare()
    assert isinstance(sent.body, bytes)
    return sent.body, sent.headers["Content-Type"]


@given(
    st.lists(st.tuples(st.sampled_from(["a.mp4", "b c.webm", "ü.mkv"]), st.binary(max_size=50)), min_size=1, max_size=5)
)
def test_the_files_of_a_form_are_those_that_were_sent(files: list[tuple[str, bytes]]) -> None:
    uploads = files_of_form(*_form(files, note="no file"), most=9)
    assert [upload.content for upload in uploads] == [content for _, content in files]
    assert [upload.name for upload in uploads if upload.name.isascii()] == [name for name, _ in files if name.isascii()]


def test_a_name_has_no_folders() -> None:
    body = b'--x\r\nContent-Disposition: form-data; name="v"; filename="../../etc/a.mp4"\r\n\r\nabc\r\n--x--\r\n'
    assert files_of_form(body, f"{FORM}; boundary=x", 3) == [Upload("a.mp4", b"abc")]


def test_a_name_that_is_not_ascii_is_that_of_a_file() -> None:
    body = b"--x\r\nContent-Disposition: form-data; name=v; filename*=UTF-8''%C3%BC.mp4\r\n\r\nabc\r\n--x--\r\n"
    assert files_of_form(body, f"{FORM}; boundary=x", 3) == [Upload("ü.mp4", b"abc")]


def test_a_body_of_many_empty_members_is_unpacked_in_pieces() -> None:
    """Each member copied the whole rest of the body once: 4 MB took half a minute."""
    empty = gzip.compress(b"")
    assert unpack_gzip(empty * 40_000 + gzip.compress(b"abc"), 10) == b"abc"
    with pytest.raises(RefusedError, match="ends early"):
        unpack_gzip(empty * 9_000 + empty[:-3], 10)


@given(st.binary(max_size=80) | st.lists(st.sampled_from([b"--x", b"\r\n", b"--", b"a", b":"])).map(b"".join))
def test_any_bytes_are_a_form_or_refused(body: bytes) -> None:
    with contextlib.suppress(RefusedError):
        files_of_form(body, f"{FORM}; boundary=x", 3)


@pytest.mark.parametrize("content_type", [FORM, f"{FORM}; boundary=", f"{FORM}; boundary=y"])
def test_a_form_without_its_boundary_is_refused(content_type: str) -> None:
    body, _ = _form([("a.mp4", b"abc")])
    with pytest.raises(RefusedError, match="boundary"):
        files_of_form(body, content_type, 3)


@given(st.lists(st.binary(max_size=60), max_size=3))
def test_gzip_of_several_members_is_one_body(members: list[bytes]) -> None:
    content = b"".join(members)
    packed = b"".join(map(gzip.compress, members))
    assert unpack_gzip(packed, len(content)) == content
    assert len(unpack_gzip(packed, max(len(content) - 1, 0))) == len(content)
