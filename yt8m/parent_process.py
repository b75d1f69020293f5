"""Lets a process end as soon as the process ends for which it works, even if that one was killed.

A pipe from the parent is not enough: a child notices its end only when it next reads, which a long task delays.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time

_LOOK_SECONDS = 0.5  # time between two looks, on systems where the end of a process cannot be waited for


def end_with(process: int) -> None:
    """Starts a thread that kills this process as soon as the process with this id has ended.

    The other process need not be the parent of this one: a shell may be between them.
    """
    threading.Thread(target=_kill_after, args=(process,), name="end-with-parent", daemon=True).start()


def _kill_after(process: int) -> None:
    _wait_for_end(process)
    os.kill(os.getpid(), signal.SIGKILL)


def _wait_for_end(process: int) -> None:
    """Returns after the process has ended; at once if there is none with this id."""
    with contextlib.suppress(AttributeError, OSError):  # only Linux has `pidfd_open`, and some sandboxes forbid it
        descriptor = os.pidfd_open(process)
        try:
            poll = select.poll()  # `select` knows only descriptors below 1024
            poll.register(descriptor, select.POLLIN)
            poll.poll()
            return
        finally:
            os.close(descriptor)
    while _is_running(process):
        time.sleep(_LOOK_SECONDS)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it belongs to another user
        return True
    return True
