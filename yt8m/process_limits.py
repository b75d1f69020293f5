"""Limits on the resources of child processes, which work on what others made."""

from __future__ import annotations

import contextlib


def usable_address_space(size: int) -> int:
    """`size` bytes, or the hard limit on the address space (`ulimit -v`) if that is lower."""
    import resource  # Windows has none

    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    return size if hard == resource.RLIM_INFINITY else min(size, hard)


def limit_address_space(size: int) -> None:
    """Limits the address space of this process to `size` bytes, or to its hard limit if that is lower."""
    import resource

    limit = usable_address_space(size)
    with contextlib.suppress(ValueError, OSError):  # the system has no such limit
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
