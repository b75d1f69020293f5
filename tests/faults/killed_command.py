"""One command of yt8m in a process that is killed at its n-th change: the workload of the fork server.

The library for LD_PRELOAD counts the calls that rename, link, remove, make a folder or sync, also those of TensorFlow.
This module counts the requests that change a bucket, and both together are numbered by the file $DISK_COUNT, whose
bytes are the kinds of the calls.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import json
import os
import signal
import tempfile
from collections.abc import Callable
from typing import Any

import requests


def warm_up() -> None:
    """Imports what the commands need; no session of TensorFlow is opened."""
    for module in os.environ.get("KILLED_IMPORTS", "").split():
        importlib.import_module(module)
    requests.Session.send = _counted(requests.Session.send)  # type: ignore[method-assign]
    gc.freeze()  # a collection in a forked process would copy all these objects


def main(text: str) -> int:
    """Runs the command `words` in the folder `folder`, with the variables `environment`.

    `python MODULE:FUNCTION WORD ...` calls a function of this folder with the words.
    """
    from yt8m import lazy
    from yt8m.command_line import cli

    given = json.loads(text)
    os.chdir(given["folder"])
    os.environ.update(given["environment"], DISK_KILLED=str(os.getpid()))
    words = given["words"]
    if words[0] != "python":
        with lazy.as_program():
            return cli.main(words)
    tempfile.tempdir = os.path.dirname(os.environ["DISK_COUNT"])  # where calls are not counted
    module, function = words[1].split(":")
    getattr(importlib.import_module(f"faults.{module}"), function)(*words[2:])
    return 0


def _counted(send: Callable[..., Any]) -> Callable[..., Any]:
    def count_and_send(session: Any, request: Any, **more: Any) -> Any:
        if request.method not in ("GET", "HEAD") and "DISK_COUNT" in os.environ:
            _count(_kind_of(request))
        return send(session, request, **more)

    return count_and_send


def _kind_of(request: Any) -> bytes:
    """U for an upload, C for objects that are joined, R for a copy, D for an object less, P for other changes."""
    if request.method == "DELETE":
        return b"D"
    marks = {"/upload/": b"U", "/compose": b"C", "/rewriteTo/": b"R", "/copyTo/": b"R"}
    return next((kind for mark, kind in marks.items() if mark in request.url), b"P")


def _count(kind: bytes) -> None:
    with open(os.environ["DISK_COUNT"], "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(kind)
        file.flush()
        if stops := os.environ.get("DISK_STOPS"):
            with open(f"{stops}.called", "wb", buffering=0) as called, open(f"{stops}.go", "rb", buffering=0) as go:
                called.write(b"\0")
                go.read(1)
        if str(os.fstat(file.fileno()).st_size) == os.environ.get("DISK_KILL_AT"):
            os.kill(int(os.environ["DISK_KILLED"]), signal.SIGKILL)
