"""One clear message for whatever ended a run."""

from __future__ import annotations

import errno
import os

from absl import logging

from yt8m.errors import RunError, first_line
from yt8m.lazy import tf


def explain(error: Exception) -> str:
    """What went wrong and what to do, without the pages that TensorFlow adds.

    The traceback of what nobody foresaw (a callback of a user's own, say) is logged.
    """
    if isinstance(error, RunError):
        return str(error)
    # A full disk is an exhausted resource too, and a file that grows too large is out of some range.
    if isinstance(error, tf.errors.OpError) and any(text in str(error.message) for text in _NO_ROOM.values()):
        return f"no room to write: {first_line(error)}"
    if isinstance(error, tf.errors.ResourceExhaustedError):
        return f"out of memory: {first_line(error)}. Use a smaller batch size, or fewer towers a device."
    if isinstance(error, tf.errors.OpError):
        where = f" in {error.op.name}" if error.op is not None else ""
        return f"{type(error).__name__}{where}: {first_line(error)}"
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return f"no room to write: {error.strerror}"
    logging.error("the run failed", exc_info=error)
    return f"{type(error).__name__}: {first_line(error)}"


def is_of_input(error: Exception) -> bool:
    """Whether a damaged record may be the reason."""
    # What quotes a record may be no text, and Python fails to decode the runtime's message.
    if isinstance(error, tf.errors.DataLossError | UnicodeDecodeError):
        return True
    # The op is that of the function inside the input, which the graph does not have, or has by chance.
    return isinstance(error, tf.errors.OpError) and (
        any(name in str(error.message) for name in _INPUT_OPS)
        or (error.op is None and isinstance(error, tf.errors.InvalidArgumentError))
    )


_INPUT_OPS = ("IteratorGetNext", "MakeIterator")
_NO_ROOM = {number: os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)}
