"""The options of `yt8m select`."""

from __future__ import annotations

from dataclasses import dataclass

from yt8m.config.of_run import OfCheckpoint, same_as
from yt8m.config.programs import EvalConfig
from yt8m.errors import UsageError
from yt8m.options import Checked, option
from yt8m.registry import TRUST_HELP

FORMATS = {"csv": ".csv", "label-studio": ".json"}


@dataclass(frozen=True)
class SelectConfig(Checked):
    """Which videos to label next, by which model."""

    model: str = option("", "folder of the trained run", aliases=("train_dir",), is_required=True, is_path=True)
    data: str = option("", "TFRecord files of videos to choose from", is_required=True, is_path=True)
    out: str = option("", "file to write", is_required=True, is_path=True)
    count: int = option(100, "number of videos to choose", minimum=1)
    by: str = option(
        "all",
        "what decides: all of uncertainty, rare classes and difference from other videos; or one alone",
        choices=("all", "uncertainty", "random"),
    )
    labelled: str = option("", "TFRecord files of videos with labels [those that the run was trained on]", is_path=True)
    format: str = option("csv", "what is written: a table, or tasks for Label Studio", choices=tuple(FORMATS))
    media: str = same_as(EvalConfig, "media", needs="", help="CSV file with the columns id,address of the videos")
    checkpoint: str = same_as(OfCheckpoint, "checkpoint")
    seed: int = option(0, "seed of --by=random", minimum=0)
    trust_code: bool = option(False, TRUST_HELP)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.out.endswith(FORMATS[self.format]):
            raise UsageError(f"--out={self.out}: with --format={self.format} its name ends in {FORMATS[self.format]}.")
