"""Every so many steps, or so many seconds."""

from __future__ import annotations

import time
from collections.abc import Callable


class Every:
    """Tells when something is due; tolerates step counts that jump, as they do in a cluster.

    >>> often = Every(steps=10)
    >>> often.fired(7)
    >>> [step for step in range(8, 21) if often.due(step)][0]
    10
    """

    def __init__(
        self,
        steps: int | None = None,
        seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._steps, self._seconds, self._clock = steps, seconds, clock
        self.fired(0)

    def due(self, step: int) -> bool:
        """Whether a multiple of the steps was passed, or the seconds have gone, since it last fired."""
        if self._steps and step // self._steps > self._step // self._steps:
            return True
        return self._seconds is not None and self._clock() - self._time >= self._seconds

    def fired(self, step: int) -> None:
        """It was done at `step`, now."""
        self._step, self._time = step, self._clock()
