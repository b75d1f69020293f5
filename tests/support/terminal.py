"""Runs a process in a terminal, and reads what it shows there."""

from __future__ import annotations

import os
import pathlib
import pty
import re
import subprocess
from collections.abc import Sequence

_ROOT = pathlib.Path(__file__).resolve().parents[2]


def on_a_terminal(words: Sequence[str]) -> str:
    """Runs a process whose standard error is a terminal of 160 columns; returns what it writes to the terminal.

    The process must end with status 0. Control sequences are left out.
    """
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "160"}
    process = subprocess.Popen(words, stderr=theirs, stdout=subprocess.DEVNULL, cwd=_ROOT, env=environment)
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux's way to say that the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    assert process.wait() == 0, shown
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
