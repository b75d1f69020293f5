"""TensorFlow, imported at the first use of one of its names.

`import tensorflow` takes 1.5 s. Flag errors, `--help` and the tools that need no graph import the
model classes (for their hyper-parameters) but never touch `tf`, so they start without it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import sys
import threading
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any


class _Quiet:
    """The state of `quiet_native_stderr` that threads share: how many are inside, and the saved descriptor."""

    lock, users, kept = threading.Lock(), 0, -1


@contextlib.contextmanager
def quiet_native_stderr() -> Iterator[None]:
    """Drops the messages of TensorFlow's C++ code on file descriptor 2 (CPU features, missing CUDA).

    TensorFlow prints these lines at import and at the first search for devices, before it reads its log level.
    They hide the lines that matter. Nothing is dropped with TF_CPP_MIN_LOG_LEVEL=0 in the environment, or in a process
    that was started without stderr (`2>&-`), where descriptor 2 is closed or belongs to another file.
    Several threads may be inside at once: the first redirects the descriptor, the last restores it.
    """
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "0" or sys.stderr is None:
        yield
        return
    with _Quiet.lock:
        if not _Quiet.users:
            sys.stderr.flush()
            _Quiet.kept = os.dup(2)
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), 2)
        _Quiet.users += 1
    try:
        yield
    finally:
        with _Quiet.lock:
            _Quiet.users -= 1
            if not _Quiet.users:
                os.dup2(_Quiet.kept, 2)
                os.close(_Quiet.kept)


_NOT_NEEDED = ("keras.src.optimizers", "scipy.sparse")


@contextlib.contextmanager
def _without_the_optional() -> Iterator[None]:
    """Keeps `import tensorflow` from importing Keras and SciPy, which are not needed.

    Keras imports scikit-learn, SciPy and matplotlib if they are installed: up to two fifths of the import
    time. The value None in sys.modules makes an import fail; afterwards `tf.keras` is imported at its first
    use.
    """
    names = [name for name in _NOT_NEEDED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(names))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Turns the garbage collector off during an import: the objects that an import creates stay alive anyway."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


_MMAP_THRESHOLD, _TRIM_THRESHOLD, _ARENA_MAX = -3, -1, -8  # parameters of mallopt(3)
_LARGEST_THRESHOLD = 32 << 20  # of blocks from the heap; glibc refuses more
_MOST_UNUSED = 64 << 20  # bytes that stay with the process


def _keep_freed_memory() -> None:
    """Lets the process reuse the memory of a batch for the next one.

    By default glibc returns such memory to the system, which has to clear it, page by page, before the next batch can
    use it: up to two fifths of the CPU time of reading frames. And it keeps freed memory in eight arenas for each core,
    where only threads of the same arena find it again. Settings in the environment take precedence.
    """
    if "GLIBC_TUNABLES" in os.environ:
        return
    with contextlib.suppress(AttributeError, OSError):  # another C library than glibc
        mallopt = ctypes.CDLL(None).mallopt
        if "MALLOC_ARENA_MAX" not in os.environ:
            mallopt(_ARENA_MAX, max(2, len(os.sched_getaffinity(0))))
        if "MALLOC_MMAP_THRESHOLD_" not in os.environ and "MALLOC_TRIM_THRESHOLD_" not in os.environ:
            mallopt(_MMAP_THRESHOLD, _LARGEST_THRESHOLD)
            mallopt(_TRIM_THRESHOLD, _MOST_UNUSED)


class _LazyModule(types.ModuleType):
    """Stands for a module until one of its attributes is read."""

    def __getattr__(self, name: str) -> Any:
        if self.__name__ not in sys.modules:
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
            _keep_freed_memory()
            with quiet_native_stderr(), _without_the_optional(), _uncollected():
                importlib.import_module(self.__name__)
        value = getattr(importlib.import_module(self.__name__), name)
        self.__dict__[name] = value
        return value


if TYPE_CHECKING:
    import tensorflow.compat.v1 as tf
else:
    tf = _LazyModule("tensorflow.compat.v1")

__all__ = ["quiet_native_stderr", "tf"]
