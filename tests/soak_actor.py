"""One program of the soak: killed at random, started again, its memory sampled."""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Sequence

import numpy as np
from clusters import Process, environment_for

PATIENCE = 600.0  # seconds for a last, unbroken run
# The last is that of a program that was not far enough to answer SIGTERM.
KILLED = (-signal.SIGKILL, 128 + signal.SIGTERM, -signal.SIGTERM)
SAMPLES = 30  # of memory, at least, to say anything


class Actor:
    """One program that is started again whenever it ends.

    Args:
      name: as it is told of.
      words: of `python -m yt8m.WORDS`.
      draw: decides when and how it is killed; None for never.
      variables: of its environment, beside ours.

    Attributes:
      follows_others: whether it may end with status 1 because another one was killed.
    """

    def __init__(self, name: str, words: Sequence[str], draw: random.Random | None, variables: dict[str, str]) -> None:
        self.name, self._words, self._draw = name, list(words), draw
        self._variables, self.memory = variables, [[]]
        self.kills = self.ends = 0
        self.follows_others = False
        self.start()

    def start(self, *more: str) -> None:
        """A new process."""
        module, *words = [*self._words, *more]
        command = [sys.executable, "-m", f"yt8m.{module}", *words]
        self._process = Process(self.name, command, environment_for(self._variables))
        self._killed, self._die_at = False, float("inf")
        self._is_quiet = self._draw is not None
        self.memory.append([])

    def look(self) -> bool:
        """Takes a sample of its memory, kills it when its time has come; True where it has ended well."""
        status = self._process.poll()
        if status is None:
            self.memory[-1].append(self._process.resident_bytes())
            if self._is_quiet and self._process.has_printed():  # imports alone are not worth a kill
                # Ever longer, so that also a slow machine comes to a checkpoint between two kills.
                self._is_quiet = False
                self._die_at = time.monotonic() + self._draw.uniform(0, 30 + 10 * self.kills)
            if time.monotonic() > self._die_at:
                number = self._draw.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM))
                self._process.send_signal(number)
                self._killed, self._die_at = True, float("inf")
                self.kills += 1
            return False
        expected = (1, 128 + signal.SIGTERM) if self.follows_others else ()
        if status and not (self._killed and status in KILLED) and status not in expected:
            raise AssertionError(f"{self.name} ended with {status}:\n{self._process.whole_log()}")
        self.ends += 1
        self._process.close()
        return not status

    def finish(self, *more: str) -> None:
        """Ends it, and starts it a last time, to its end."""
        self.stop()
        self.start(*more)
        status = self._process.end(PATIENCE)
        assert status == 0, f"{self.name} ended with {status}:\n{self._process.whole_log()}"
        self._process.close()

    def spare(self) -> None:
        """Kills it no more."""
        self._draw = None

    def stop(self) -> None:
        """SIGTERM, which every program answers."""
        self._process.send_signal(signal.SIGTERM)
        status = self._process.end(PATIENCE)
        assert status in (0, *KILLED, *[1] * self.follows_others), (
            f"{self.name} ended with {status}:\n{self._process.whole_log()}"
        )
        self._process.close()

    def abandon(self) -> None:
        """Whatever it does."""
        self._process.close()

    def growth(self) -> tuple[int, float] | None:
        """(seconds, growth from the second third to the last) of its longest life."""
        longest = max(self.memory, key=len)
        if len(longest) < SAMPLES:
            return None
        third = len(longest) // 3
        middle, last = np.median(longest[third : 2 * third]), np.median(longest[2 * third :])
        return len(longest), float(last / middle - 1)
