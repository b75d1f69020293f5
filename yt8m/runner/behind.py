"""Work on the host that is done while the next step runs."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any


class Behind:
    """Calls a function in a thread of its own, one call after the other, and one step behind at most.

    NumPy lets go of Python's lock while it computes, and so does a step: what one of them leaves of the cores
    is the other's.

    Args:
      work: what is called.
    """

    def __init__(self, work: Callable[..., Any]) -> None:
        self._work = work
        self._executor = ThreadPoolExecutor(max_workers=1, thread_name_prefix="behind-the-steps")
        self._last: Future[Any] | None = None

    def put(self, *given: Any) -> None:
        """Begins a call with what is given, once the one before has ended; raises what that has raised."""
        self.wait()
        self._last = self._executor.submit(self._work, *given)

    def wait(self) -> Any:
        """What the last call returned, None where there was none; raises what it has raised."""
        return None if self._last is None else self._last.result()

    def close(self) -> None:
        """Ends the thread, once the call in hand has ended; what that raises is lost."""
        self._executor.shutdown()
