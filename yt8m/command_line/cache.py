"""`yt8m cache`: parses shards into a cache ahead of time; see `datasets.cache_making`."""

from __future__ import annotations

from yt8m.command_line import flags
from yt8m.datasets import cache_making


def main(argv: list[str]) -> int:
    """Fills the cache as the flags say; returns the exit status."""
    cache_making.make(*flags.cache_config(argv))
    return 0
