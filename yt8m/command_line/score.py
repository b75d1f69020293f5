"""`yt8m score`: computes the metrics of a prediction file; see `reports.prediction_score`."""

from __future__ import annotations

from yt8m.command_line import config_flags
from yt8m.reports import prediction_score


def main(argv: list[str]) -> int:
    """Prints the metrics; returns the exit status."""
    purpose = "Computes the metrics of a prediction file from the labels in records."
    return prediction_score.run(config_flags.read(prediction_score.ScoreConfig, "yt8m score", purpose, argv))
