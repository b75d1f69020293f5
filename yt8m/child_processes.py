"""What keeps child processes in bounds: they end with the process for which they work, and use limited memory."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
import time

_LOOK_SECONDS = 0.5  # time between two looks, on systems where the end of a process cannot be waited for


def end_with(process: int) -> None:
    """Starts a thread that kills this process as soon as the process with this id has ended, even if it was killed.

    A pipe from that process is not enough: a child notices its end only when it next reads, which a long task delays.

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


def usable_address_space(size: int) -> int:
    """`size` bytes, or the hard limit on the address space (`ulimit -v`) if that is lower."""
    import resource  # Windows has none

    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    return size if hard == resource.RLIM_INFINITY else min(size, hard)


def limit_address_space(size: int) -> None:
    """Limits the address space of this process to `size` bytes, or to its hard limit if that is lower."""
    import resource

    limit = usable_address_space(size)
    with contextlib.suppress(ValueError, OSError):  # the system has no such limit
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
