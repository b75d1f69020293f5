"""How many threads the input takes, and the guard at its start."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from absl import logging

from yt8m.lazy import tf

# Records held for shuffling, serialised. A video record has 5 KB, a frame record 250 to 350 KB.
VIDEO_SHUFFLE_BUFFER = 4096
FRAME_SHUFFLE_BUFFER = 256

BLOCK = 4  # records taken from one file before the next one's turn


def buffer_for(reader: Any) -> int:
    """How many records of this reader's are shuffled among each other where nobody says."""
    return FRAME_SHUFFLE_BUFFER if hasattr(reader, "max_frames") else VIDEO_SHUFFLE_BUFFER


def some(files: tf.Tensor) -> tf.Tensor:
    """`files`, which must not be empty: `repeat` would look for the first record for ever."""
    there = tf.debugging.Assert(tf.size(files) > 0, ["the list of input files is empty"])
    with tf.control_dependencies([there]):
        return tf.identity(files)


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def read_calls(patterns: Sequence[str], num_readers: int) -> int | None:
    """Threads that read: what comes over the network waits for answers, what is local costs a core.

    One thread reads 300,000 cached video records a second, and handing records from thread to thread
    costs as much as reading them, so few cores have none to spare (None: read where it is asked for).
    """
    if any("gs://" in pattern for pattern in patterns):
        return num_readers
    return min(num_readers, cores() // 4) if cores() >= 8 else None


@dataclass(frozen=True)
class Threads:
    """How many batches are in work at once; None: as many as the cores can use.

    Attributes:
      parse: parsed side by side; each is held in memory, so there are few.
      ahead: made before they are asked for.
    """

    parse: int | None = None
    ahead: int | None = None

    @property
    def parse_calls(self) -> int:
        """Half the cores, at most 4: the others are the step's."""
        return self.parse or min(4, max(1, cores() // 2))

    @property
    def prefetch(self) -> int:
        """One; two where there are cores to make them."""
        return self.ahead or (1 if cores() < 8 else 2)

    def tell(self, num_readers: int) -> None:
        """Logs what was chosen, and what changes it."""
        logging.info(
            "input on %d cores: --parse_threads=%d --prefetch=%d --num_readers=%d",
            *(cores(), self.parse_calls, self.prefetch, num_readers),
        )


def threads_for(reader: Any, shuffle: bool, parse: int | None = None, ahead: int | None = None) -> Threads:
    """The threads for records of `reader`; `parse` and `ahead` are what the user wants.

    An evaluation of rated segments parses whole videos for a few frames of each, beside which its step is
    nothing: all cores may parse, up to 8. Segments are small, so that the batches in work are too.
    """
    if not shuffle and getattr(reader, "keeps_few_frames", False):
        parse = parse or min(8, cores())
    return Threads(parse, ahead)


def options() -> Any:
    """All numbers are set, so the tuner's thread would only cost time."""
    chosen = tf.data.Options()
    chosen.autotune.enabled = False
    chosen.deterministic = True
    return chosen
