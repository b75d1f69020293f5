"""Whether anything else runs on this machine."""

from __future__ import annotations

import os
import pathlib
import platform
import time

QUIET = 0.1  # cores


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def busy_seconds() -> float:
    """Busy seconds since boot, summed over all cores; nan if the system does not report them."""
    try:
        fields = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    except OSError:
        return float("nan")
    user, nice, system, _idle, _wait, interrupts, soft, stolen = map(int, fields)
    return (user + nice + system + interrupts + soft + stolen) / os.sysconf("SC_CLK_TCK")


def load(seconds: float = 1.0) -> float:
    """Cores in use by other processes, measured while this process sleeps."""
    before = busy_seconds()
    time.sleep(seconds)
    return (busy_seconds() - before) / seconds


def describe(others: float) -> str:
    """One line on the machine, with a warning if other programs are using it."""
    line = f"{cores()} cores, {platform.machine()}, Python {platform.python_version()}"
    if others < QUIET:
        return f"{line}; quiet"
    return (
        f"{line}; NOT QUIET: other programs use {others:.1f} cores. Rates are too low then; "
        "ratios, taken side by side, suffer less."
    )
