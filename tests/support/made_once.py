"""A folder that one of the forked processes makes for all of them."""

from __future__ import annotations

import fcntl
import pathlib
import shutil
from collections.abc import Callable

import pytest


def folder(factory: pytest.TempPathFactory, name: str, make: Callable[[pathlib.Path], None]) -> pathlib.Path:
    """A copy, for this process, of what `make` puts into a folder; the others wait while one of them makes it.

    Files that name others by their whole paths go on naming those of the first folder, which nobody changes.
    """
    own = factory.getbasetemp()
    made = (own.parent if own.name.startswith("worker") else own) / f"made-once-{name}"
    finished = made.with_suffix(".finished")
    with open(made.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not finished.exists():
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir()
            make(made)
            finished.touch()
    return pathlib.Path(shutil.copytree(made, factory.mktemp(name), dirs_exist_ok=True))
