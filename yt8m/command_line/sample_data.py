"""`yt8m sample-data`: generates small data; see `datasets.sample_data`."""

from __future__ import annotations

from yt8m.command_line import config_flags
from yt8m.datasets.sample_data import SampleConfig, run


def main(argv: list[str]) -> int:
    """Writes the data; returns the exit status."""
    purpose = (
        "Generates small data sets in the formats of YouTube-8M, with its class frequencies. "
        "Metrics on these data say nothing about YouTube-8M."
    )
    return run(config_flags.read(SampleConfig, "yt8m sample-data", purpose, argv))
