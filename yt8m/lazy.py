"""TensorFlow, imported at the first use of one of its names.

`import tensorflow` takes 1.5 s. Flag errors, `--help` and the tools that need no graph import the model classes (for
their hyper-parameters), but use no name of `tf`. So they start without it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import sys
import tempfile
import threading
import types
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from yt8m import cores


class _Redirection:
    """The state of `quiet_native_stderr`, which all threads share."""

    lock, num_threads, saved = threading.Lock(), 0, -1


@contextlib.contextmanager
def quiet_native_stderr() -> Iterator[None]:
    """Drops what is written to file descriptor 2 inside the block: messages of TensorFlow's C++ code.

    At import and at the first search for devices, TensorFlow prints lines about CPU features and missing CUDA, before
    it reads its log level. These lines would hide the messages that matter. Nothing is dropped if TF_CPP_MIN_LOG_LEVEL
    is 0 in the environment, or if the process was started without stderr (`2>&-`): then descriptor 2 is closed or
    belongs to another file.

    Several threads may be inside at once: the first redirects the descriptor, the last restores it.
    """
    if os.environ.get("TF_CPP_MIN_LOG_LEVEL") == "0" or sys.stderr is None:
        yield
        return
    with _Redirection.lock:
        if not _Redirection.num_threads:
            with contextlib.suppress(OSError, ValueError):  # a full disk, or a closed stream
                sys.stderr.flush()
            _Redirection.saved = os.dup(2)
            with open(os.devnull, "wb") as null_file:
                os.dup2(null_file.fileno(), 2)
        _Redirection.num_threads += 1
    try:
        yield
    finally:
        with _Redirection.lock:
            _Redirection.num_threads -= 1
            if not _Redirection.num_threads:
                os.dup2(_Redirection.saved, 2)
                os.close(_Redirection.saved)


# Modules that `import tensorflow` tries to import, and does without if the import fails.
_OPTIONAL_MODULES = ("h5py", "keras.src.optimizers", "scipy.sparse")


@contextlib.contextmanager
def _without_optional_modules() -> Iterator[None]:
    """Keeps `import tensorflow` inside the block from importing Keras, SciPy and h5py, which are not needed.

    Keras imports scikit-learn, SciPy and matplotlib if they are installed, which takes up to two fifths of the time of
    the import. The value None in sys.modules makes an import fail. After the block, `tf.keras` is imported at its first
    use.
    """
    names = [name for name in _OPTIONAL_MODULES if name not in sys.modules]
    sys.modules.update(dict.fromkeys(names))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]


@contextlib.contextmanager
def _without_temporary_folder() -> Iterator[None]:
    """Lets `import tensorflow` inside the block work in a read-only container.

    The import loads absl's library for tests, which asks for the folder for temporary files, though it writes nothing.
    """
    try:
        tempfile.gettempdir()
    except OSError:
        tempfile.tempdir = os.sep
        try:
            yield
        finally:
            tempfile.tempdir = None
    else:
        yield


class _Process:
    """What the modules of this process know of it: whether a program is its only purpose, see `as_program`."""

    is_of_program = False


@contextlib.contextmanager
def as_program() -> Iterator[None]:
    """Says that the process runs a program, and ends with it; turns the garbage collector off until `begin_work`.

    The modules and flags of a program live as long as its process, so the collector need not look at them.
    """
    was_on = gc.isenabled()
    gc.disable()
    _Process.is_of_program = True
    try:
        yield
    finally:
        _Process.is_of_program = False
        if was_on:
            gc.enable()


def begin_work() -> None:
    """Sets all objects of a program aside and turns the garbage collector on, which looks at later objects alone."""
    if _Process.is_of_program:
        gc.freeze()
        gc.enable()


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Turns the garbage collector off inside the block, in which modules are imported.

    The objects that an import creates stay alive anyway. After the block, later collections pass over them, which saves
    a program about a second of CPU time. Objects that are older than the block are collected as before, except in a
    program: to tell them from the others takes a twentieth of the time of the import.
    """
    was_on = gc.isenabled()
    gc.disable()
    older = [] if _Process.is_of_program else gc.get_objects()
    try:
        yield
    finally:
        if _Process.is_of_program:
            gc.freeze()
        elif len(older) < _MANY_OBJECTS:
            # The frame of a failed import, which its exception refers to, refers to all frames that called it.
            of_stacks = [each for each in gc.get_objects() if issubclass(type(each), _OF_STACKS)]
            gc.freeze()
            _thaw([*older, *of_stacks])
        if was_on:
            gc.enable()


_MANY_OBJECTS = 500_000  # to thaw so many takes as long as the collections that would pass over TensorFlow's
_OF_STACKS = (types.FrameType, types.TracebackType, BaseException)


def _thaw(objects: Sequence[object]) -> None:
    """Makes the garbage collector look at these objects again, after `gc.freeze()` has set all objects aside.

    The module `gc` can thaw all objects, but not some. An object that is tracked anew is a young one.
    Objects are handed over by their addresses, because ctypes asks an object for an attribute, and some answer that
    with an error, such as a proxy of an object that is gone.
    """
    untrack, track = ctypes.pythonapi["PyObject_GC_UnTrack"], ctypes.pythonapi["PyObject_GC_Track"]
    untrack.argtypes = track.argtypes = (ctypes.c_void_p,)
    untrack.restype = track.restype = None
    for address in map(id, filter(gc.is_tracked, objects)):
        untrack(address)
        track(address)


_MMAP_THRESHOLD, _TRIM_THRESHOLD, _ARENA_MAX = -3, -1, -8  # numbers of the parameters of mallopt(3)
_HEAP_BLOCK_BYTES = 32 << 20  # blocks below this size come from the heap; glibc accepts no larger threshold
_UNUSED_BYTES = 64 << 20  # so much free memory at the end of the heap stays with the process


def _keep_freed_memory() -> None:
    """Makes glibc keep the memory of a batch for the next one.

    By default glibc returns such memory to the system, which has to clear it, page by page, before the next batch can
    use it. That takes up to two fifths of the CPU time of reading frames. And by default glibc has up to eight arenas
    for each core, and memory that was freed in one arena is not reused in another. Settings in the environment take
    precedence.
    """
    with contextlib.suppress(AttributeError, OSError):  # the C library is not glibc
        mallopt = ctypes.CDLL(None).mallopt
        if not _is_set("MALLOC_ARENA_MAX", "arena_max"):
            mallopt(_ARENA_MAX, max(2, cores.usable()))
        if not any(_is_set(f"MALLOC_{name.upper()}_", name) for name in ("mmap_threshold", "trim_threshold")):
            mallopt(_MMAP_THRESHOLD, _HEAP_BLOCK_BYTES)
            mallopt(_TRIM_THRESHOLD, _UNUSED_BYTES)


def _is_set(name: str, tunable: str) -> bool:
    """Whether the environment sets a parameter of glibc's malloc, by a variable of its own or in GLIBC_TUNABLES."""
    return name in os.environ or f"glibc.malloc.{tunable}=" in os.environ.get("GLIBC_TUNABLES", "")


def open_closed_descriptors() -> None:
    """Opens /dev/null as each of the file descriptors 0 to 2 that is closed (`>&-`).

    Otherwise the next file that is opened, such as a checkpoint, would get the number, and what TensorFlow's C++ code
    prints to descriptor 2 would be written into it.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the system takes the lowest free number


class _LazyModule(types.ModuleType):
    """Stands for a module, which is imported when an attribute is read for the first time."""

    def __getattr__(self, name: str) -> Any:
        if self.__name__ not in sys.modules:
            os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
            # Each session computes in as many threads as it asks for. Otherwise all share the pool of the first one,
            # and handing a small product to a second thread takes longer than the product.
            os.environ.setdefault("TF_OVERRIDE_GLOBAL_THREADPOOL", "1")
            _keep_freed_memory()
            open_closed_descriptors()
            with (
                quiet_native_stderr(),
                _without_temporary_folder(),
                _without_optional_modules(),
                _without_garbage_collection(),
            ):
                importlib.import_module(self.__name__)
        value = getattr(importlib.import_module(self.__name__), name)
        self.__dict__[name] = value
        return value


if TYPE_CHECKING:
    import tensorflow.compat.v1 as tf
else:
    tf = _LazyModule("tensorflow.compat.v1")

__all__ = ["as_program", "begin_work", "open_closed_descriptors", "quiet_native_stderr", "tf"]
