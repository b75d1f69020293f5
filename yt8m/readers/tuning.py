"""How many threads the input takes, and the guard at its start."""

from __future__ import annotations

import os
from typing import Any

from yt8m.lazy import tf


def some(files: tf.Tensor) -> tf.Tensor:
    """`files`, which must not be empty: `repeat` would look for the first record for ever."""
    there = tf.debugging.Assert(tf.size(files) > 0, ["the list of input files is empty"])
    with tf.control_dependencies([there]):
        return tf.identity(files)


def cores() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parse_calls() -> int:
    """Batches parsed side by side; each is held in memory, so there are few."""
    return min(4, max(1, cores() // 2))


def options() -> Any:
    """All numbers are set, so the tuner's thread would only cost time."""
    chosen = tf.data.Options()
    chosen.autotune.enabled = False
    chosen.deterministic = True
    return chosen
