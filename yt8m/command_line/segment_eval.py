"""`yt8m segment-eval`: computes MAP@n of ranked segments; see `reports.segment_score`."""

from __future__ import annotations

from yt8m.command_line import config_flags
from yt8m.reports import segment_score


def main(argv: list[str]) -> int:
    """Prints MAP@n; returns the exit status."""
    purpose = "Computes MAP@n of a segment submission, over the rated segments."
    return segment_score.run(config_flags.read(segment_score.SegmentEvalConfig, "yt8m segment-eval", purpose, argv))
