"""`yt8m inspect FILES`: shows what shards hold; see `datasets.inspect_shards`."""

from __future__ import annotations

from yt8m.command_line import config_flags
from yt8m.datasets import inspect_shards


def main(argv: list[str]) -> int:
    """Shows the shards; returns the exit status, 1 if one is damaged."""
    patterns: list[str] = []
    purpose = "Shows what TFRecord shards hold: name files or patterns after the flags."
    return inspect_shards.run(
        config_flags.read(inspect_shards.InspectConfig, "yt8m inspect", purpose, argv, patterns), patterns
    )
