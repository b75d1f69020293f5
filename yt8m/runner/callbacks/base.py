"""The base class of callbacks. A file of its own, since the other modules here and users' callbacks extend it."""

from __future__ import annotations

from yt8m.lazy import tf
from yt8m.runner.run_config import Context


class Callback(tf.train.SessionRunHook):
    """A SessionRunHook that knows the run's context and is closed however the run ends."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def close(self) -> None:
        """Releases files and threads; also called after an error of this or another callback."""
