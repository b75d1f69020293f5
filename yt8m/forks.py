"""Makes the sessions of TensorFlow; refuses a process that was forked after TensorFlow had run, where it would hang.

Threads are not copied by a fork. `multiprocessing` forks by default on Linux before Python 3.14. Processes that are
started by `spawn` import all anew.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import weakref

from yt8m.errors import UsageError
from yt8m.lazy import quiet_native_stderr, tf

_is_copy_of_user = False  # whether this process was forked from one that had used TensorFlow
_has_opened_any = False
_open_sessions: weakref.WeakSet[tf.Session] = weakref.WeakSet()


def _note_fork() -> None:
    global _is_copy_of_user
    _abandon_threads()
    # `tf` keeps each name that was read: without `Session`, this package has run nothing.
    _is_copy_of_user = _is_copy_of_user or "Session" in vars(tf)


def _abandon_threads() -> None:
    """Lets go of TensorFlow's objects without their destructors: these wait for threads that only the parent has.

    Without this a child that ends by `sys.exit` crashes. The objects' memory stays shared with the parent.
    """
    for session in _open_sessions:
        session._closed = True
        session._session = None
    _open_sessions.clear()
    # The functions of tf.data belong to the eager context, which has threads of its own.
    eager = getattr(sys.modules.get("tensorflow.python.eager.context"), "_context", None)
    if (handle := getattr(eager, "_context_handle", None)) is not None:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(handle))


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def refuse_copy(path: str = "") -> None:
    """Raises `UsageError` if this process is a copy in which TensorFlow would hang.

    Args:
      path: what cannot be loaded or trained here; empty if the caller does not know.
    """
    if _is_copy_of_user:
        raise UsageError(
            f"{path + ': ' if path else ''}TensorFlow hangs in this process, because a model was loaded or trained "
            "before the fork that made it. Load and train in the child and not before the fork, start the child by "
            "multiprocessing's method `spawn`, or use an ONNX file (`yt8m export --format=onnx`)."
        )


def new_session(target: str = "", graph: tf.Graph | None = None, config: tf.ConfigProto | None = None) -> tf.Session:
    """A session of TensorFlow, with its arguments. All sessions of this package are made here, so that none hangs.

    The first one looks for GPUs. TensorFlow calls it an error if there is none; that message is dropped.
    """
    global _has_opened_any
    refuse_copy()
    with contextlib.nullcontext() if _has_opened_any else quiet_native_stderr():
        session = tf.Session(target, graph, config)
    _has_opened_any = True
    _open_sessions.add(session)
    return session
