"""One clear message for whatever ended a run."""

from __future__ import annotations

from absl import logging

from yt8m.errors import RunError
from yt8m.lazy import tf


def explain(error: Exception) -> str:
    """What went wrong and what to do, without the pages that TensorFlow adds.

    The traceback of what nobody foresaw (a callback of a user's own, say) is logged.
    """
    if isinstance(error, RunError):
        return str(error)
    if isinstance(error, tf.errors.ResourceExhaustedError):
        return f"out of memory: {_first_line(error)}. Use a smaller batch size, or fewer towers a device."
    if isinstance(error, tf.errors.OpError):
        where = f" in {error.op.name}" if error.op is not None else ""
        return f"{type(error).__name__}{where}: {_first_line(error)}"
    logging.error("the run failed", exc_info=error)
    return f"{type(error).__name__}: {_first_line(error)}"


def _first_line(error: Exception) -> str:
    text = error.message if isinstance(error, tf.errors.OpError) else str(error)
    return next(iter(text.splitlines()), "no message")
