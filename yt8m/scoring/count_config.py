"""The flags of `yt8m count`."""

from __future__ import annotations

from dataclasses import dataclass

from yt8m import options
from yt8m.config.of_run import OfCheckpoint, same_as
from yt8m.options import option
from yt8m.registry import TRUST_HELP
from yt8m.scoring.predict_config import PredictConfig


@dataclass(frozen=True)
class CountConfig(options.Checked):
    """The flags of `yt8m count`."""

    train_dir: str = same_as(PredictConfig, "train_dir", flag="model", aliases=("train_dir",))
    data: str = option("", "records of the videos to count, without labels", is_required=True, is_path=True)
    labelled: str = option(
        "",
        "records with labels: a random sample of videos like those to count, and none of these themselves",
        is_required=True,
        is_path=True,
    )
    out: str = option("count.csv", "CSV file to write, with a line for each class", is_path=True)
    level: float = option(0.95, "probability with which an interval contains the truth", minimum=0.5, maximum=0.9999)
    checkpoint: str = same_as(OfCheckpoint, "checkpoint")
    vocabulary: str = same_as(PredictConfig, "vocabulary")
    trust_code: bool = option(False, TRUST_HELP)
