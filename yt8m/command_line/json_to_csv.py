"""`yt8m json-to-csv`: converts the output of batch prediction; see `datasets.json_predictions`."""

from __future__ import annotations

from yt8m.command_line import config_flags
from yt8m.datasets import json_predictions


def main(argv: list[str]) -> int:
    """Writes the prediction file; returns the exit status."""
    purpose = "Converts the JSON lines of batch prediction to one prediction file."
    return json_predictions.run(config_flags.read(json_predictions.JsonToCsvConfig, "yt8m json-to-csv", purpose, argv))
