"""The two packages of a release: built so that they are the same to the byte wherever they are built, and checked."""

from __future__ import annotations

import gzip
import io
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import time
import tomllib
import zipfile

# Two builds differ in what must not matter: who may read the files, the folder, the clock's zone, the order of sets.
SURROUNDINGS: tuple[tuple[str, int, dict[str, str]], ...] = (
    ("first", 0o022, {"TZ": "UTC", "PYTHONHASHSEED": "1"}),
    ("second/elsewhere", 0o077, {"TZ": "Asia/Kathmandu", "PYTHONHASHSEED": "2"}),
)
MADE_BY_SETUPTOOLS = {"PKG-INFO", "setup.cfg"}
IN_DIST_INFO = {
    "METADATA",
    "WHEEL",
    "RECORD",
    "entry_points.txt",
    "top_level.txt",
    "licenses/LICENSE",
    "licenses/NOTICE",
}
IN_SOURCE = {
    *("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "NOTICE"),
    *("CHANGELOG.md", "CITATION.cff", "SECURITY.md"),
}
RELATIVE_LINK = re.compile(r"\]\((?!\w+:|#)([^)\s]+)\)")


def run(*words: object, cwd: pathlib.Path, **options: object) -> str:
    """Runs a program, which must end with status 0; returns what it prints."""
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return str(done.stdout)


def repository_address(root: pathlib.Path) -> str | None:
    """Where people find the repository, if `[project.urls]` of pyproject.toml names it."""
    urls = tomllib.loads((root / "pyproject.toml").read_text())["project"].get("urls", {})
    return str(urls["Repository"]).rstrip("/") if "Repository" in urls else None


def with_absolute_links(page: str, address: str, tag: str) -> str:
    """The page with links that also work elsewhere: the index shows README.md without the files beside it."""

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link[1].endswith((".png", ".svg")) else "blob"
        return f"]({address}/{kind}/{tag}/{link[1]})"

    return RELATIVE_LINK.sub(absolute, page)


def build(
    root: pathlib.Path, folder: pathlib.Path, version: str, umask: int, variables: dict[str, str]
) -> dict[str, bytes]:
    """{name: bytes} of the two packages of what is committed, built in a fresh clone."""
    clone, out = folder / "clone", folder / "out"
    folder.mkdir(parents=True)
    run("git", "clone", "--quiet", root, clone, cwd=folder, umask=umask)
    if address := repository_address(clone):
        page = clone / "README.md"
        page.write_text(with_absolute_links(page.read_text(), address, f"v{version}"))
    seconds = int(run("git", "log", "-1", "--format=%ct", cwd=clone))
    environment = {**os.environ, **variables, "SOURCE_DATE_EPOCH": str(seconds)}
    words = (sys.executable, "-m", "build", "--no-isolation", "--outdir", out, clone)
    run(*words, cwd=folder, env=environment, umask=umask)
    return {path.name: repacked(path.name, path.read_bytes(), seconds) for path in sorted(out.iterdir())}


def build_twice(root: pathlib.Path, folder: pathlib.Path, version: str) -> dict[str, bytes]:
    """The packages, which are the same in both SURROUNDINGS; otherwise ends the program."""
    first, second = (build(root, folder / name, version, *how) for name, *how in SURROUNDINGS)
    if first != second:
        names = sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
        sys.exit(f"two builds of the same commit differ in {', '.join(names)}")
    return first


def repacked(name: str, archive: bytes, seconds: int) -> bytes:
    """The same members in order, without the owners, permissions and times that the disk gave them."""
    return repacked_wheel(archive, seconds) if name.endswith(".whl") else repacked_source(archive, seconds)


def repacked_source(archive: bytes, seconds: int) -> bytes:
    """The source distribution, repacked."""
    packed = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as source,
        gzip.GzipFile("", "wb", fileobj=packed, mtime=seconds) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as target,
    ):
        for member in sorted(source.getmembers(), key=lambda member: member.name):
            content = source.extractfile(member)
            plain = tarfile.TarInfo(member.name)
            plain.size, plain.type, plain.mtime = member.size, member.type, seconds
            plain.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            target.addfile(plain, content)
    return packed.getvalue()


def repacked_wheel(archive: bytes, seconds: int) -> bytes:
    """The wheel, repacked; what is known about the package comes last, as installers like it."""
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as source, zipfile.ZipFile(packed, "w") as target:
        for name in sorted(source.namelist(), key=lambda name: (".dist-info/" in name, name.endswith("/RECORD"), name)):
            plain = zipfile.ZipInfo(name, time.gmtime(seconds)[:6])
            plain.create_system, plain.external_attr = 3, 0o100644 << 16  # a plain file of Unix
            target.writestr(plain, source.read(name), zipfile.ZIP_DEFLATED, compresslevel=6)
    return packed.getvalue()


def member_sizes(name: str, archive: bytes) -> dict[str, int]:
    """{path: bytes} of a package's files; those of a source distribution without the folder that holds them all."""
    if name.endswith(".whl"):
        with zipfile.ZipFile(io.BytesIO(archive)) as wheel:
            return {member.filename: member.file_size for member in wheel.infolist()}
    with tarfile.open(fileobj=io.BytesIO(archive)) as source:
        return {member.name.partition("/")[2]: member.size for member in source if member.isfile()}


def wrong_members(name: str, members: set[str], tracked: set[str], version: str) -> list[str]:
    """What a package lacks, and what it has that it should not, in words.

    A wheel has the package's files that git tracks, and what describes them. A source distribution has what builds the
    wheel, may have other files that git tracks, and has what setuptools makes.
    """
    package = {path for path in tracked if path.startswith("yt8m/")}
    if name.endswith(".whl"):
        needed = package | {f"yt8m-{version}.dist-info/{path}" for path in IN_DIST_INFO}
        others = members - needed
    else:
        needed = package | IN_SOURCE
        others = {path for path in members if not path.startswith("yt8m.egg-info/")} - tracked - MADE_BY_SETUPTOOLS
    lacks = [f"{name} lacks {path}" for path in sorted(needed - members)]
    return lacks + [f"{name} has {path}, which is not of the package" for path in sorted(others)]
