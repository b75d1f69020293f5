"""Ends a process of a cluster that waits too long for others, after a warning that names them.

It does not depend on training: evaluation and inference by several processes use it too.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from absl import logging

from yt8m.runner.cluster.exchange import end_process

NOTICE_SECONDS = 20.0


class Watchdog:
    """A thread that ends the process unless `beat` is called often enough; a context.

    TensorFlow's runtime waits forever for a process that died, even if a step has a time limit, and the
    main thread cannot be woken from that. So the thread ends the process.

    Args:
      stall_timeout: seconds without a beat after which the process ends with status 1.
      suspects: returns a short text on the likely cause; called after at most 20 s without a beat.
    """

    def __init__(self, stall_timeout: float, suspects: Callable[[], str]) -> None:
        self._timeout, self._suspects = stall_timeout, suspects
        self._notice = min(NOTICE_SECONDS, stall_timeout / 2)
        self._last, self._is_noticed = time.monotonic(), False
        self._alone_since: float | None = None
        self._is_fine: Callable[[], bool] = lambda: True
        self._over = threading.Event()

    def beat(self) -> None:
        """Records that the process has made progress."""
        self._last = time.monotonic()

    def leave_alone(self, is_fine: Callable[[], bool]) -> None:
        """Call before work for which this process needs no step of the others, such as saving and exporting at the end.

        From now on the process may take any time, as long as `is_fine()` holds.
        """
        self._is_fine, self._alone_since = is_fine, time.monotonic()
        self.beat()

    def __enter__(self) -> Watchdog:
        self.beat()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(min(1.0, self._notice / 4)):
            idle = time.monotonic() - self._last
            if idle >= self._notice and self._alone_since is not None and self._is_fine():
                logging.info("saving and closing at the end: %.0f s so far", time.monotonic() - self._alone_since)
                self.beat()
            elif idle >= self._timeout:
                self._end(idle)
            elif idle >= self._notice and not self._is_noticed:
                self._is_noticed = True
                logging.warning(
                    "no progress for %.0f s: %s. The run ends after %g s without progress (--stall_timeout).",
                    *(idle, self._suspects(), self._timeout),
                )
            elif idle < self._notice and self._is_noticed:
                self._is_noticed = False
                logging.warning("there is progress again")

    def _end(self, idle: float) -> None:
        logging.error("no progress for %.0f s: %s. Ending with status 1.", idle, self._suspects())
        end_process(1)
