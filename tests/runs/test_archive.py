"""Archives: hostile ones are refused with nothing written, honest ones come back as they were."""

from __future__ import annotations

import gzip
import io
import os
import pathlib
import subprocess
import tarfile
from collections.abc import Callable

import pytest

from yt8m.errors import RunError, UsageError
from yt8m.runs import archive
from yt8m.storage import pipes


def entry(name: str, content: bytes = b"x", **changes: object) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    for attribute, value in changes.items():
        setattr(member, attribute, value)
    return member, content


def pack(path: pathlib.Path, *entries: tuple[tarfile.TarInfo, bytes]) -> pathlib.Path:
    with tarfile.open(path, "w:gz") as packed:
        for member, content in entries:
            packed.addfile(member, io.BytesIO(content))
    return path


def special(kind: bytes, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    return entry("model/special", b"", type=kind, linkname=target)


HOSTILE = {
    "parent": entry("../escaped"),
    "parent inside": entry("model/../../escaped"),
    "absolute": entry("/tmp/escaped"),
    "link outside": special(tarfile.SYMTYPE, "/etc/passwd"),
    "link inside": special(tarfile.SYMTYPE, "innocent"),
    "hard link": special(tarfile.LNKTYPE, "innocent"),
    "character device": special(tarfile.CHRTYPE),
    "block device": special(tarfile.BLKTYPE),
    "pipe": special(tarfile.FIFOTYPE),
    "set user id": entry("model/tool", mode=0o4755),
    "set group id": entry("model/tool", mode=0o2755),
    "sparse": special(tarfile.GNUTYPE_SPARSE),
    "twice": entry("./innocent"),
}


@pytest.mark.promise("X1")
@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE.keys())
def test_refused_and_nothing_written(tmp_path: pathlib.Path, hostile: tuple[tarfile.TarInfo, bytes]) -> None:
    room = tmp_path / "room"
    room.mkdir()
    source = pack(tmp_path / "hostile.tgz", entry("innocent"), hostile)
    with pytest.raises(UsageError, match=r"hostile\.tgz"):
        archive.safe_extract(str(source), str(room / "out"))
    assert os.listdir(room) == []
    assert sorted(os.listdir(tmp_path)) == ["hostile.tgz", "room"]


def zeros(path: pathlib.Path, claimed: int, real: int) -> None:
    """One file of zeros whose header claims `claimed` bytes and which has `real`.

    A gzip file may have many members, so the same one can stand for each MiB.
    """
    with open(path, "wb") as packed:
        packed.write(gzip.compress(entry("zeros", b"", size=claimed)[0].tobuf()))
        member = gzip.compress(bytes(1 << 20))
        for _ in range(real >> 20):
            packed.write(member)


def long_name(path: pathlib.Path) -> None:
    """A header that announces a name of 10 GB, and 64 MB of it."""
    with gzip.open(path, "wb", compresslevel=1) as packed:
        header = entry("././@LongLink", b"", type=tarfile.GNUTYPE_LONGNAME, size=10 << 30)[0]
        packed.write(header.tobuf(tarfile.GNU_FORMAT))
        for _ in range(64):
            packed.write(b"a" * (1 << 20))


def nested_headers(path: pathlib.Path) -> None:
    with gzip.open(path, "wb") as packed:
        header = entry("././@LongLink", b"", type=tarfile.GNUTYPE_LONGNAME, size=0)[0]
        packed.write(header.tobuf(tarfile.GNU_FORMAT) * 1900)


def trailing_zeros(path: pathlib.Path) -> None:
    with gzip.open(path, "wb", compresslevel=1) as packed:
        packed.write(entry("small", b"", size=0)[0].tobuf())
        for _ in range(64):
            packed.write(bytes(1 << 20))


@pytest.mark.promise("X1")
@pytest.mark.parametrize(
    "make",
    [
        lambda path: zeros(path, 10 << 30, 10 << 30),
        lambda path: zeros(path, 1, 10 << 30),
        lambda path: zeros(path, 9 << 20, 20 << 20),
        long_name,
        nested_headers,
        trailing_zeros,
    ],
    ids=[
        "10 GB of zeros",
        "10 GB behind a claim of one byte",
        "a little over",
        "10 GB of a name",
        "nested headers",
        "zeros after the end",
    ],
)
def test_too_much_is_refused(tmp_path: pathlib.Path, make: Callable[[pathlib.Path], None]) -> None:
    source = tmp_path / "bomb.tgz"
    make(source)
    with pytest.raises(UsageError, match="refused"):
        archive.safe_extract(str(source), str(tmp_path / "out"), max_bytes=8 << 20)
    assert os.listdir(tmp_path) == ["bomb.tgz"]


@pytest.mark.promise("X1")
def test_too_many_entries(tmp_path: pathlib.Path) -> None:
    source = pack(tmp_path / "many.tgz", *(entry(f"d{i}", b"", type=tarfile.DIRTYPE) for i in range(101)))
    with pytest.raises(UsageError, match="100 entries"):
        archive.safe_extract(str(source), str(tmp_path / "out"), max_members=100)
    assert os.listdir(tmp_path) == ["many.tgz"]
    assert archive.safe_extract(str(source), str(tmp_path / "out"), max_members=101) == []
    assert len(os.listdir(tmp_path / "out")) == 101


@pytest.mark.promise("X1")
@pytest.mark.parametrize("last", [entry("../escaped"), entry("f0"), entry("big", bytes(1 << 20)), entry("f5")])
def test_all_is_checked_before_anything_is_written(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, last: tuple[tarfile.TarInfo, bytes]
) -> None:
    """Also the number of entries: to write and sync many small files takes a minute."""
    source = pack(tmp_path / "m.tgz", *(entry(f"f{i}") for i in range(5)), last)

    def nothing_is_written(*given: object) -> None:
        raise AssertionError(given)

    monkeypatch.setattr(archive.storage, "write_atomic", nothing_is_written)
    monkeypatch.setattr(archive.storage, "makedirs", nothing_is_written)
    with pytest.raises(UsageError, match="refused"):
        archive.safe_extract(str(source), str(tmp_path / "out"), max_bytes=1 << 20, max_members=5)


def test_a_pipe_is_read(tmp_path: pathlib.Path) -> None:
    source = pack(tmp_path / "m.tgz", entry("a"))
    os.mkfifo(tmp_path / "pipe")
    with subprocess.Popen(["cp", source, tmp_path / "pipe"]):
        assert archive.safe_extract(str(tmp_path / "pipe"), str(tmp_path / "out")) == ["a"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a"]
    pipes.forget()


@pytest.mark.promise("X1")
@pytest.mark.parametrize("cut", [0, 5, 300, -4, -200])
def test_damage_is_named(tmp_path: pathlib.Path, cut: int) -> None:
    source = pack(tmp_path / "whole.tgz", entry("a", os.urandom(500)), entry("b", os.urandom(500)))
    (tmp_path / "cut.tgz").write_bytes(source.read_bytes()[:cut])
    with pytest.raises(RunError, match=r"cut\.tgz"):
        archive.safe_extract(str(tmp_path / "cut.tgz"), str(tmp_path / "out"))
    assert sorted(os.listdir(tmp_path)) == ["cut.tgz", "whole.tgz"]


def test_a_flipped_byte_is_named(tmp_path: pathlib.Path) -> None:
    source = pack(tmp_path / "m.tgz", entry("a", os.urandom(50_000)))
    content = bytearray(source.read_bytes())
    content[25_000] ^= 1
    source.write_bytes(content)
    with pytest.raises(RunError, match=r"m.tgz"):
        archive.safe_extract(str(source), str(tmp_path / "out"))
    assert os.listdir(tmp_path) == ["m.tgz"]


def test_there_and_back(tmp_path: pathlib.Path) -> None:
    files = {"a": b"", "sub/deep/b": os.urandom(3_000_000), "sub/" + "n" * 200: b"long name", "ü": b"x"}
    for name, content in files.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(content)
    archive.make_tgz(str(tmp_path / "in"), str(tmp_path / "in" / "m.tgz"))
    assert set(archive.safe_extract(str(tmp_path / "in" / "m.tgz"), str(tmp_path / "out"))) == set(files)
    for name, content in files.items():
        assert (tmp_path / "out" / name).read_bytes() == content


def test_same_files_same_bytes(tmp_path: pathlib.Path) -> None:
    for folder, names in (("one", "ab"), ("two", "ba")):
        (tmp_path / folder).mkdir()
        for name in names:
            (tmp_path / folder / name).write_bytes(name.encode())
    os.utime(tmp_path / "two" / "a", (1, 1))
    os.chmod(tmp_path / "two" / "b", 0o777)
    for folder in ("one", "two"):
        archive.make_tgz(str(tmp_path / folder), str(tmp_path / f"{folder}.tgz"))
    assert (tmp_path / "one.tgz").read_bytes() == (tmp_path / "two.tgz").read_bytes()


def test_a_folder_in_use_is_left_alone(tmp_path: pathlib.Path) -> None:
    source = pack(tmp_path / "m.tgz", entry("a"))
    (tmp_path / "out").mkdir()
    assert archive.safe_extract(str(source), str(tmp_path / "out")) == ["a"]
    (tmp_path / "out" / "a").write_bytes(b"mine")
    with pytest.raises(UsageError, match=f"{tmp_path}/out"):
        archive.safe_extract(str(source), str(tmp_path / "out"))
    with pytest.raises(UsageError, match="local folder"):
        archive.safe_extract(str(source), "gs://b/out")
    assert (tmp_path / "out" / "a").read_bytes() == b"mine"


def give_away(link: pathlib.Path, owner: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The link belongs to another user: truly if root runs the test, else by what `lstat` says."""
    if os.geteuid() == 0:
        os.lchown(link, owner, owner)
        return
    real = os.lstat

    def lstat(path: str, **options: int) -> os.stat_result:
        status = real(path, **options)
        is_given = os.path.samestat(status, real(link))
        return os.stat_result([*status[:4], owner, *status[5:]]) if is_given else status

    monkeypatch.setattr(os, "lstat", lstat)


@pytest.mark.promise("X1")
def test_no_folder_through_a_link_of_another_user(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither as the folder itself, nor on the way to it, nor behind a link of one's own."""
    source = pack(tmp_path / "m.tgz", entry("a"))
    for name in ("there", "theirs", "home"):
        (tmp_path / name).mkdir()
    (tmp_path / "theirs/link").symlink_to(tmp_path / "there")
    (tmp_path / "mine").symlink_to("theirs/../theirs/link")
    (tmp_path / "good").symlink_to(tmp_path / "home")
    give_away(tmp_path / "theirs/link", 12345, monkeypatch)
    for folder in ("theirs/link", "theirs/link/out", "mine", "mine/out"):
        with pytest.raises(UsageError, match=r"theirs/link .*12345"):
            archive.safe_extract(str(source), str(tmp_path / folder))
    assert os.listdir(tmp_path / "there") == []
    assert archive.safe_extract(str(source), str(tmp_path / "good/out")) == ["a"]
    assert archive.safe_extract(str(source), str(tmp_path / "theirs/../home/new")) == ["a"]


def test_links_in_a_circle_are_no_folder(tmp_path: pathlib.Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(UsageError, match="circle"):
        archive.safe_extract(str(pack(tmp_path / "m.tgz", entry("a"))), str(tmp_path / "one/out"))


def test_what_is_not_packed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match="link"):
        archive.make_tgz(str(tmp_path / "in"), str(tmp_path / "m.tgz"))
    with pytest.raises(UsageError, match="no such folder"):
        archive.make_tgz(str(tmp_path / "none"), str(tmp_path / "m.tgz"))
    assert os.listdir(tmp_path) == ["in"]
