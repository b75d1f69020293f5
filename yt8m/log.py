"""The log: one format, each line once, on the error stream. Lines are written with `absl.logging`."""

from __future__ import annotations

import logging
import sys

from absl import logging as absl_logging

FORMAT = "%(asctime)s %(levelname)s %(message)s"


class _Handler(logging.StreamHandler):  # type: ignore[type-arg]
    """Ours, told from the handlers of others; writes to what is the error stream at the time.

    While a progress bar is shown, that is the bar's own, which puts lines above itself.
    """

    def emit(self, record: logging.LogRecord) -> None:
        """Writes one line."""
        self.stream = sys.stderr
        super().emit(record)


def set_up() -> None:
    """Shows absl's lines from INFO on, and those of libraries from WARNING on.

    One handler at the root is enough for all. TensorFlow gives its logger a second one where the root
    had none yet, and each of its lines would appear twice. Calling this again changes nothing but
    the stream, which is the error stream of the moment.
    """
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _Handler)]:
        root.removeHandler(handler)
    handler = _Handler(sys.stderr)
    handler.setFormatter(logging.Formatter(FORMAT, "%Y-%m-%d %H:%M:%S"))
    root.addHandler(handler)
    root.removeHandler(absl_logging.get_absl_handler())
    absl_logging.set_verbosity(absl_logging.INFO)
    tensorflow = logging.getLogger("tensorflow")
    tensorflow.handlers.clear()
    tensorflow.addFilter(_no_deprecation_notice)


def _no_deprecation_notice(record: logging.LogRecord) -> bool:
    """Graph mode is the ground we build on: that TensorFlow would rather have us leave it helps no user."""
    return "is deprecated and will be removed" not in str(record.msg)
