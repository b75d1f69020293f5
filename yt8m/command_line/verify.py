"""`yt8m verify FILES`: checks shards; see `datasets.verification`."""

from __future__ import annotations

from yt8m.command_line import config_flags
from yt8m.datasets import verification


def main(argv: list[str]) -> int:
    """Checks shards as the flags say; returns the exit status, 1 if a shard is damaged or missing."""
    patterns: list[str] = []
    purpose = "Checks TFRecord shards: lengths and checksums of all records, and their counts."
    return verification.run(
        config_flags.read(verification.VerifyConfig, "yt8m verify", purpose, argv, patterns), patterns
    )
