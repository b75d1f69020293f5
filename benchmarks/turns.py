"""When the blocks of steps of a run are timed: by this process, in turn with floors."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Protocol

from benchmarks.measure import Measured, Sample, Work

# Seconds to wait before a floor, so that background work of the last step (ranking, writing) has ended.
_PAUSE = 0.1

# Untimed steps before a block: they use up the batches that were prefetched meanwhile.
WARM_STEPS = 5


class Turns(Protocol):
    """Who decides when the next block begins."""

    def wait(self) -> bool:
        """Waits for the next turn; False if there is none."""

    def tell(self, sample: Sample) -> None:
        """Takes the sample of a turn."""


class FloorTurns:
    """Times the floors before the first block and after each; gives `repeats` turns."""

    def __init__(self, measured: Measured, floors: Mapping[str, Work], repeats: int) -> None:
        self._measured, self._floors, self._repeats = measured, floors, repeats

    def wait(self) -> bool:
        """Times the floors."""
        if self._floors:
            time.sleep(_PAUSE)
        for name, floor in self._floors.items():
            self._measured.floors.setdefault(name, []).append(floor())
        return len(self._measured.samples) < self._repeats

    def tell(self, sample: Sample) -> None:
        """Adds the sample."""
        self._measured.samples.append(sample)
