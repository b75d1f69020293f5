"""What a test must not leave behind: threads, processes, signal handlers, environment, files, sessions."""

from __future__ import annotations

import contextlib
import gc
import os
import pathlib
import signal
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from yt8m.storage import copies

_PATIENCE = 30.0  # seconds to wait for threads and processes that are just ending
_POLL = 0.02

# The first is pytest's own; the others are set by TensorFlow and torch, once.
_NOT_OURS = {
    "PYTEST_CURRENT_TEST",
    "ENABLE_RUNTIME_UPTIME_TELEMETRY",
    "HDF5_PLUGIN_PATH",
    "KMP_DUPLICATE_LIB_OK",
    "KMP_INIT_AT_FORK",
    "TF2_BEHAVIOR",
    "TF_CPP_MIN_LOG_LEVEL",
    "TF_OVERRIDE_GLOBAL_THREADPOOL",
    "TPU_ML_PLATFORM",
    "TPU_ML_PLATFORM_VERSION",
    "TORCHINDUCTOR_CACHE_DIR",
}

# Files and processes that TensorFlow (AutoGraph), multiprocessing, onnxruntime and torch make once for a whole process.
_FILES_OF_THE_PROCESS = ("__autograph_generated_file", "__pycache__", ".ses", "torchinductor_")
# Folders that the package makes once for a whole process; what is in them is looked for.
_FOLDERS_OF_THE_PROCESS = ("yt8m-classifier-",)
_PROCESSES_OF_THE_PROCESS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")

_sessions: weakref.WeakSet[Any] = weakref.WeakSet()


_long_lived: set[int] = set()


def lives_longer(pid: int) -> None:
    """Says that a process outlives the test that starts it, because it belongs to a fixture of a module or session."""
    _long_lived.add(pid)


class State:
    """What this process has now: threads, child processes, signal handlers and so on; see `left_since`."""

    def __init__(self) -> None:
        self._threads, self._children = _threads(), _children()
        self._handlers, self._environment = _handlers(), _environment()
        self._folder, self._files = os.getcwd(), _temporary_files()
        self._sessions = set(map(id, _open_sessions()))

    def left_since(self) -> list[str]:
        """Describes each thing that this process has now, but did not have when the state was taken."""
        if _temporary_files() - self._files or any(id(each) not in self._sessions for each in _open_sessions()):
            gc.collect()  # what is left in a cycle is no leak: when it goes depends on all that ran before
        found = [f"thread {thread.name}" for thread in _later(_threads, self._threads)]
        found += [f"process {_command(pid)}" for pid in _later(_children, self._children)]
        found += _changes("signal handler", self._handlers, _handlers())
        found += _changes("environment variable", self._environment, _environment())
        found += [f"temporary file {name}" for name in sorted(_temporary_files() - self._files)]
        found += [f"open session {each}" for each in _open_sessions() if id(each) not in self._sessions]
        if os.getcwd() != self._folder:
            found.append(f"the working folder {os.getcwd()}")
        return found


def _later(look: Callable[[], set[Any]], before: set[Any]) -> set[Any]:
    """Returns what `look` finds and `before` lacks; waits some time for things that are about to end."""
    deadline = time.monotonic() + _PATIENCE
    while (found := look() - before) and time.monotonic() < deadline:
        time.sleep(_POLL)
    return found


def _threads() -> set[threading.Thread]:
    return set(threading.enumerate())


def _children() -> set[int]:
    """The child processes that nobody has waited for, whether they still run or not."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return set()  # the usual case, and cheaper than to look through /proc
    return {pid for pid in _all_children() if _is_ours(pid)}


def _all_children() -> set[int]:
    """The child processes of all threads that Python knows, from Linux's lists.

    TensorFlow's threads are many and start no process: their lists would take longer than all else that is looked at.
    The children of a thread that has ended are the first thread's.
    """
    found: set[int] = set()
    for thread in (os.getpid(), *(thread.native_id for thread in threading.enumerate())):
        with (
            contextlib.suppress(OSError),  # a thread that has ended, or a system without such lists
            open(f"/proc/self/task/{thread}/children", "rb", buffering=0) as file,  # `read_text` takes far longer
        ):
            found |= set(map(int, file.readall().split()))
    return found


def _command(pid: int) -> str:
    with contextlib.suppress(OSError):
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
        return f"{pid} {words[:200]}".strip()
    return str(pid)


def _is_ours(pid: int) -> bool:
    return pid not in _long_lived and not any(name in _command(pid) for name in _PROCESSES_OF_THE_PROCESS)


def _handlers() -> dict[str, Any]:
    found = {number.name: signal.getsignal(number) for number in _NAMED}
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    return {**found, "wakeup": wakeup}


# pytest-timeout uses SIGALRM for the time limit of a test.
_NAMED = set(signal.Signals) - {signal.SIGALRM}


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _NOT_OURS}


def _changes(what: str, before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    names = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    return [f"{what} {name}: {before.get(name)} -> {after.get(name)}" for name in names]


def _temporary_files() -> set[str]:
    folder = tempfile.gettempdir()
    names = {name for name in os.listdir(folder) if not name.startswith(_FILES_OF_THE_PROCESS)}
    own = {
        name for name in names if name.startswith(tuple(f"{each}{os.getpid()}-" for each in _FOLDERS_OF_THE_PROCESS))
    }
    inside = {os.path.join(name, each) for name in own for each in os.listdir(os.path.join(folder, name))}
    return names - own | {path for path in inside if os.path.basename(path) != copies._LOCK}


def _open_sessions() -> list[Any]:
    _watch_sessions()  # called each time, because the test may have imported TensorFlow
    return [session for session in _sessions if not session._closed]


def _watch_sessions() -> None:
    """Keeps a list of the open sessions and of each that is opened later, because TensorFlow has no such list."""
    module = sys.modules.get("tensorflow.python.client.session")
    if module is None or hasattr(module.BaseSession, "is_watched"):
        return
    make = module.BaseSession.__init__

    def make_and_note(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        _sessions.add(self)

    module.BaseSession.__init__, module.BaseSession.is_watched = make_and_note, True
    # Uses `type`, not `isinstance`, which reads `__class__`: a lazy module would then import the real one.
    _sessions.update(found for found in gc.get_objects() if issubclass(type(found), module.BaseSession))
