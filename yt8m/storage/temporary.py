"""Temporary files and folders. Only this module asks the system for them, so that each failure names TMPDIR."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import IO, cast

from yt8m.errors import RunError
from yt8m.storage.base import NO_ROOM

_IN_MEMORY = 32 << 20  # bytes of a temporary file that are kept in memory; a larger one is written into the folder


def folder_path() -> str:
    """The system's folder for temporary files; raises `RunError`, which names TMPDIR, if none is writable."""
    try:
        return tempfile.gettempdir()
    except OSError as error:
        raise RunError(
            "no folder for temporary files is writable (read-only container?): set the environment variable TMPDIR to "
            f"one that is. {error.strerror}"
        ) from error


def advice() -> str:
    """What to do if there is no room for temporary files."""
    return f"Make room in {folder_path()}, or set the environment variable TMPDIR to a folder with more room."


@contextlib.contextmanager
def naming_tmpdir() -> Iterator[None]:
    """Turns errors of the system inside the block into `RunError`s that name the folder and TMPDIR."""
    try:
        yield
    except OSError as error:
        raise RunError(f"cannot write temporary files: {error.strerror or error}. {advice()}") from error


def new_folder(prefix: str, parent: str | None = None) -> str:
    """Makes a folder with mode 0700; the caller removes it.

    Args:
      parent: the folder in which it is made; None for the system's one.
    """
    if parent is not None:
        return tempfile.mkdtemp(prefix=prefix, dir=parent)
    with naming_tmpdir():
        return tempfile.mkdtemp(prefix=prefix, dir=folder_path())


@contextlib.contextmanager
def folder_in(parent: str) -> Iterator[str]:
    """Yields the path of a new folder in `parent`, which is removed after the block."""
    folder = new_folder("", parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def opened_file() -> Iterator[IO[bytes]]:
    """Yields a file without a name, open for writing and reading; it stays in memory while it is small."""
    with tempfile.SpooledTemporaryFile(_IN_MEMORY) as file:
        yield cast("IO[bytes]", file)


@contextlib.contextmanager
def naming_tmpdir_if_full() -> Iterator[None]:
    """Turns the errors of a block that writes to `opened_file` into `RunError`s, if it has no room or no folder."""
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise RunError(f"cannot write temporary files: {error.strerror}. {advice()}") from error
        if isinstance(error, FileNotFoundError) and error.filename is None:  # no folder is writable, says `tempfile`
            folder_path()
        raise


@contextlib.contextmanager
def redirected(folder: str) -> Iterator[None]:
    """In the block, temporary files of this process and of those that it starts are made in `folder`."""
    former_variable, former_folder = os.environ.get("TMPDIR"), tempfile.tempdir
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    try:
        yield
    finally:
        tempfile.tempdir = former_folder
        os.environ.pop("TMPDIR")
        if former_variable is not None:
            os.environ["TMPDIR"] = former_variable
