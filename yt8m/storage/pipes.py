"""Pipes that are named as input files: `<(program)` of the shell, /dev/stdin, or a file made by `mkfifo`.

What a pipe gives is gone once it has been read, but most readers look at a file twice (its first bytes, then all of it)
or seek in it. So the first reader copies it into a temporary file, which this process reads from then on.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import stat
import threading
from typing import BinaryIO

from absl import logging

from yt8m.errors import RunError

WRITER_SECONDS = 10.0  # how long a pipe may have no writer; a shell starts the two ends at about the same time
_guard = threading.Lock()  # guards `_copies` and `_folders`
_copies: dict[tuple[int, int], str] = {}  # {device and inode of a pipe: path of the file with what it gave}
_folders: dict[int, tuple[contextlib.ExitStack, str]] = {}  # {process number: (what removes its folder, the folder)}
_NAMES = {stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def regular_file(path: str) -> str:
    """`path` itself; for a pipe, the path of a file with all that it gave.

    Raises `RunError` for a pipe that nobody writes, and for a socket or a device, which may give bytes for ever. The
    empty /dev/null is a file like others.
    """
    try:
        status = os.stat(path)
    except OSError:  # whoever opens it says why
        return path
    kind = stat.S_IFMT(status.st_mode)
    if kind in _NAMES and not _is_null(status):
        raise RunError(f"cannot read {path}: it is {_NAMES[kind]}, not a file. Name a file, or a pipe.")
    if kind != stat.S_IFIFO:
        return path
    with _guard:
        key = status.st_dev, status.st_ino
        if key not in _copies:
            _copies[key] = _copy(path)
        return _copies[key]


def _is_null(status: os.stat_result) -> bool:
    with contextlib.suppress(OSError):
        return status.st_rdev == os.stat(os.devnull).st_rdev
    return False


def _copy(path: str) -> str:
    with _opened_pipe(path) as source, open(os.path.join(_folder(), str(len(_copies))), "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
        logging.info("%s is a pipe: %d bytes of it were copied to be read", path, target.tell())
    return target.name


def _opened_pipe(path: str) -> BinaryIO:
    """Opens a pipe, once a program has opened it for writing; raises `RunError` if none does."""
    opened: list[BinaryIO] = []
    errors: list[OSError] = []

    def open_it() -> None:
        try:
            opened.append(open(path, "rb"))  # noqa: SIM115 - the caller closes it
        except OSError as error:
            errors.append(error)

    opener = threading.Thread(target=open_it, daemon=True)
    opener.start()
    opener.join(WRITER_SECONDS)
    if opener.is_alive():
        with contextlib.suppress(OSError):  # a writer that comes and goes ends the thread
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        raise RunError(
            f"cannot read {path}: it is a pipe, and no program opened it for writing within {WRITER_SECONDS:g} s. "
            "Start the program that writes it, or name a file."
        )
    if errors:
        raise errors[0]
    return opened[0]


def _folder() -> str:
    """The folder of this process for copies; the process removes it when it ends, or else the next one does."""
    from yt8m.storage import copies  # the module imports `local`, which imports this one

    number = os.getpid()
    if number not in _folders:
        stack = contextlib.ExitStack()
        _folders[number] = stack, stack.enter_context(copies.private_folder("yt8m-pipes-"))
    return _folders[number][1]


@atexit.register
def forget() -> None:
    """Removes the copies that this process made; a forked process leaves those of its parent to it.

    It is called after each call from Python too: another pipe may have the name and the inode of one that has gone.
    """
    stack, _ = _folders.pop(os.getpid(), (contextlib.ExitStack(), ""))
    stack.close()
    _copies.clear()
