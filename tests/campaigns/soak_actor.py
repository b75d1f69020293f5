"""One program of the soak: killed at random, started again, its memory sampled."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Sequence

import numpy as np
from clusters import Process

PATIENCE = 600.0  # seconds for a last, unbroken run
# The last is that of a program that was not far enough to answer SIGTERM.
KILLED = (-signal.SIGKILL, 128 + signal.SIGTERM, -signal.SIGTERM)
SAMPLES = 30  # of memory, at least, to say anything
Helpers = Callable[[int], list[int]]  # the processes that a program with this id has started


class Actor:
    """One program that is started again whenever it ends.

    Args:
      name: as it is told of.
      words: of `python -m yt8m.WORDS`.
      draw: decides when and how it is killed; None for never.
      variables: of its environment, beside ours.
      helpers: if given, mostly one of these processes is killed instead, and the program must do without it.

    Attributes:
      words: see above; another start takes those of then.
      follows_others: whether it may end with status 1 because another one was killed.
    """

    def __init__(
        self,
        name: str,
        words: Sequence[str],
        draw: random.Random | None,
        variables: dict[str, str],
        helpers: Helpers | None = None,
    ) -> None:
        self.name, self.words, self._draw, self._helpers = name, list(words), draw, helpers
        self._variables, self.memory = variables, [[]]
        self.kills = self.ends = self.helpers_killed = 0
        self.follows_others = False
        self.start()

    def start(self, *more: str) -> None:
        """A new process."""
        module, *words = [*self.words, *more]
        self._process = Process(self.name, ["-m", f"yt8m.{module}", *words], self._variables)
        self._killed, self._die_at = False, float("inf")
        self._is_quiet = self._draw is not None
        self.memory.append([])

    def look(self) -> bool:
        """Takes a sample of its memory, kills it when its time has come; True where it has ended well."""
        status = self._process.poll()
        if status is None:
            self.memory[-1].append(self._process.resident_bytes())
            if self._is_quiet and self._has_begun():  # imports alone are not worth a kill
                # Ever longer, so that also a slow machine comes to a checkpoint between two kills.
                self._is_quiet = False
                self._die_at = time.monotonic() + self._draw.uniform(0, 30 + 10 * self.kills)
            if time.monotonic() > self._die_at:
                self._die_at = float("inf")
                self._kill()
            return False
        expected = (1, 128 + signal.SIGTERM) if self.follows_others else ()
        if status and not (self._killed and status in KILLED) and status not in expected:
            raise AssertionError(f"{self.name} ended with {status}:\n{self._process.whole_log()}")
        self.ends += 1
        self._process.close()
        return not status

    def _has_begun(self) -> bool:
        return bool(self._helpers(self._process.pid)) if self._helpers else self._process.has_printed()

    def _kill(self) -> None:
        helpers = self._helpers(self._process.pid) if self._helpers else []
        if helpers and self._draw.random() < 0.7:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(self._draw.choice(helpers), signal.SIGKILL)
            self.helpers_killed += 1
        else:
            self._process.send_signal(self._draw.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)))
            self._killed = True
        self.kills += 1

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
