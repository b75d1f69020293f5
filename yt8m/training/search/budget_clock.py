"""The clock of a budget. While other programs keep the cores from this one, it goes slower than the wall's."""

from __future__ import annotations

import time

_MOST_WAITING = 5.0  # a budget lasts at most so many times as long by the wall's clock


class BudgetClock:
    """Counts the seconds of a budget from when it is made.

    On a machine with nothing else to do they are those of the wall. On a busy one a plan would be cut short by the work
    of others, and the model be worse: so a second counts only in so far as the threads of this process computed for
    that long together, up to five times the budget.
    """

    def __init__(self) -> None:
        self._before, self._cores = 0.0, 1
        self._wall, self._computing = time.monotonic(), time.process_time()

    def share(self, cores: int) -> None:
        """From now on so many threads compute side by side all the time, as a plan for so many cores expects.

        On a busy machine, what they computed together is then so many times the seconds that the plan counts.
        """
        self._before, self._cores = self.spent(), cores
        self._wall, self._computing = time.monotonic(), time.process_time()

    def spent(self) -> float:
        """Seconds of the budget that are spent."""
        wall, computing = time.monotonic() - self._wall, time.process_time() - self._computing
        return self._before + max(min(wall, computing / self._cores), wall / _MOST_WAITING)
