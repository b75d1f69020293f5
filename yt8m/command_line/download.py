"""`yt8m download`: fetches the published shards; see `datasets.download`."""

from __future__ import annotations

from yt8m.command_line import config_flags
from yt8m.datasets.download import DownloadConfig, run


def main(argv: list[str]) -> int:
    """Fetches the files that the flags name; returns the exit status."""
    purpose = "Fetches shards of YouTube-8M and checks their md5. If you start it again, it continues where it stopped."
    return run(config_flags.read(DownloadConfig, "yt8m download", purpose, argv))
