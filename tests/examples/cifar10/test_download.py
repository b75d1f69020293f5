"""Fetching, from a server of our own."""

from __future__ import annotations

import functools
import hashlib
import http.server
import io
import tarfile
import threading

import pytest

from examples.cifar10.download import FILES, FOLDER, MD5, download
from yt8m.errors import RunError, UsageError


def archive(names):
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz") as tar:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = 3
            tar.addfile(member, io.BytesIO(b"abc"))
    return held.getvalue()


@pytest.fixture
def served(tmp_path):
    """A function that serves bytes and gives their URL and md5."""
    root = tmp_path / "served"
    root.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *unused):
            pass

    server = http.server.ThreadingHTTPServer(("localhost", 0), functools.partial(Quiet, directory=root))
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()

    def serve(content):
        (root / "set.tar.gz").write_bytes(content)
        url = f"http://localhost:{server.server_port}/set.tar.gz"
        return url, hashlib.md5(content).hexdigest()

    yield serve
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_published_sum_is_known():
    assert MD5 == "c32a1d4ab5d03f1284b67883e8d87530"


def test_what_is_fetched_is_unpacked_once(tmp_path, served):
    url, md5 = served(archive([f"{FOLDER}/{name}" for name in FILES]))
    download(str(tmp_path / "data"), url, md5)
    # Neither the archive nor the server is asked again.
    download(str(tmp_path / "data"), "http://localhost:1/other.tar.gz", md5)
    assert (tmp_path / "data" / FOLDER / "test_batch.bin").read_bytes() == b"abc"
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [FOLDER, "set.tar.gz"]


def test_a_file_that_was_removed_comes_back_and_the_others_stay(tmp_path, served):
    url, md5 = served(archive([f"{FOLDER}/{name}" for name in FILES]))
    download(str(tmp_path / "data"), url, md5)
    folder = tmp_path / "data" / FOLDER
    (folder / FILES[1]).unlink()
    (folder / FILES[2]).write_bytes(b"mine")
    download(str(tmp_path / "data"), url, md5)
    assert {path.name for path in folder.iterdir()} == set(FILES)
    assert [(folder / name).read_bytes() for name in FILES[1:3]] == [b"abc", b"mine"]
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [FOLDER, "set.tar.gz"]


def test_another_file_than_expected_is_refused_and_does_not_stay(tmp_path, served):
    url, _ = served(archive([f"{FOLDER}/test_batch.bin"]))
    with pytest.raises(RunError, match=r"is not the file it should be: its md5 is \w+, expected " + MD5):
        download(str(tmp_path / "data"), url)
    assert list((tmp_path / "data").iterdir()) == []


def test_a_server_without_the_file_is_named(tmp_path, served):
    url, md5 = served(b"")
    with pytest.raises(RunError, match=r"http://localhost.*404.*/other\.tar\.gz"):
        download(str(tmp_path / "data"), url.replace("set.", "other."), md5)
    assert not (tmp_path / "data").exists()


def test_an_archive_that_reaches_outside_is_refused(tmp_path, served):
    url, md5 = served(archive([f"{FOLDER}/test_batch.bin", "../../escaped"]))
    with pytest.raises(UsageError, match=r"escaped.*outside.*archive"):
        download(str(tmp_path / "data"), url, md5)
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["set.tar.gz"]
    assert not list(tmp_path.rglob("escaped"))


def test_an_archive_of_something_else_is_refused(tmp_path, served):
    url, md5 = served(archive(["readme.txt"]))
    with pytest.raises(RunError, match=f"holds no folder {FOLDER}"):
        download(str(tmp_path / "data"), url, md5)


def test_an_archive_put_there_by_hand_is_checked_too(tmp_path):
    (tmp_path / "set.tar.gz").write_bytes(archive([f"{FOLDER}/test_batch.bin"]))
    with pytest.raises(RunError, match=r"set\.tar\.gz\b.*md5.*, expected"):
        download(str(tmp_path), "http://localhost:1/set.tar.gz")
    md5 = hashlib.md5((tmp_path / "set.tar.gz").read_bytes()).hexdigest()
    download(str(tmp_path), "http://localhost:1/set.tar.gz", md5)
    assert (tmp_path / FOLDER / "test_batch.bin").exists()
