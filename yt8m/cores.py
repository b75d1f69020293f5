"""How many CPU cores this process may use: what the system, its scheduler and its container leave to it."""

from __future__ import annotations

import contextlib
import functools
import math
import os
from collections.abc import Iterator
from fractions import Fraction

_GROUPS, _OWN_GROUPS = "/sys/fs/cgroup", "/proc/self/cgroup"  # where Linux mounts and lists control groups


def usable() -> int:
    """The number of cores that this process may use, at least 1. Threads and processes are counted by it.

    This is the smaller of two numbers: the cores to which the process is bound (by taskset, Slurm or `docker
    --cpuset-cpus`), and the quota of CPU time of its control group (`docker --cpus`, limits of Kubernetes), rounded up.
    """
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = group_quota()
    return max(1, bound if quota is None else min(bound, math.ceil(quota)))


@functools.cache
def group_quota(groups: str = _GROUPS, own_groups: str = _OWN_GROUPS) -> Fraction | None:
    """The CPU time, in cores, that the control groups of this process grant it; None if they set no limit.

    A group cannot exceed the quotas of the groups that contain it, so the smallest of them counts.
    """
    quotas = [_quota_of(folder) for folder in _folders_of(groups, own_groups)]
    return min((quota for quota in quotas if quota is not None), default=None)


def _folders_of(groups: str, own_groups: str) -> Iterator[str]:
    """Yields the folders of the groups that limit this process: its own, and all that contain it.

    A line is `0::/path` in the unified hierarchy (version 2), and `4:cpu,cpuacct:/path` in version 1. Inside a
    container the path may be that of the host, which does not exist there; the mounted folder is then its group.
    """
    for line in _read(own_groups).splitlines():
        number, _, controllers_and_path = line.partition(":")
        controllers, _, path = controllers_and_path.partition(":")
        if number == "0" and not controllers:
            mounts = [groups, os.path.join(groups, "unified")]
        elif "cpu" in controllers.split(","):
            mounts = [os.path.join(groups, controllers), os.path.join(groups, "cpu")]
        else:
            continue
        components = path.strip("/").split("/")
        for mount in mounts:
            yield from (os.path.join(mount, *components[:count]) for count in range(len(components), -1, -1))


def _quota_of(folder: str) -> Fraction | None:
    """The quota of a control group in cores; None if it sets none, or if there is no such group."""
    quota, _, period = _read(os.path.join(folder, "cpu.max")).strip().partition(" ")  # version 2
    if not quota:
        quota, period = (_read(os.path.join(folder, f"cpu.cfs_{name}_us")).strip() for name in ("quota", "period"))
    with contextlib.suppress(ValueError, ZeroDivisionError):  # `max` stands for no limit
        limit = Fraction(int(quota), int(period))
        return limit if limit > 0 else None
    return None


def _read(path: str) -> str:
    """The text of a file of the system; empty if there is none."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""
