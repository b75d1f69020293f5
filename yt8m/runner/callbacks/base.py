"""What the callbacks have in common."""

from __future__ import annotations

from yt8m.lazy import tf
from yt8m.runner.run_config import Context


class Callback(tf.train.SessionRunHook):
    """A SessionRunHook that knows the run's context and is closed however the run ends."""

    def __init__(self, context: Context) -> None:
        self.context = context

    def close(self) -> None:
        """Lets go of files and threads; called also after an error, of this callback or another."""
