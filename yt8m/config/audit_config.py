"""The options of `yt8m audit`."""

from __future__ import annotations

from dataclasses import dataclass

from yt8m.config.data_config import DataConfig
from yt8m.config.of_run import same_as
from yt8m.config.programs import EvalConfig
from yt8m.errors import UsageError
from yt8m.options import Checked, option, path_option


@dataclass(frozen=True)
class AuditConfig(Checked, is_common=True):
    """The flags of `yt8m audit` itself. It also takes flags of `yt8m train`, which say how its models are trained."""

    data: str = path_option("TFRecord files to audit, of all splits; commas between patterns")
    videos: str = path_option(
        "in place of --data: a folder of video files, whose labels are the names of their folders; or a table of them, "
        "as for yt8m extract",
        needs="extractors",
    )
    extractors: tuple[str, ...] = option(
        (), "of --videos: what computes their features, as for yt8m extract", is_code=True, needs="videos"
    )
    out: str = path_option("folder for the tables and the page of the audit", shapes="nothing", is_required=True)
    folds: int = option(
        5, "number of parts of the data; a model trained on the other parts scores each part", minimum=2, maximum=100
    )
    table: str = path_option("CSV or Parquet table with the columns id and that of --group_by", needs="group_by")
    group_by: str = option("", "column of --table whose equal values stay in one part", needs="table")
    batch_size: int | None = same_as(
        DataConfig, "batch_size", default=None, help="examples per step [a 64th of the videos, from 16 to 1024]",
        shapes="variables",
    )  # fmt: skip
    num_epochs: int | None = same_as(
        DataConfig, "num_epochs", default=None, help="passes over the data [2 to 40, for about 1000 steps]",
        shapes="variables",
    )  # fmt: skip
    min_chance: float = option(
        0.1,
        "list labels that are wrong or missing with at least this chance",
        shapes="nothing",
        minimum=0.001,
        maximum=1,
    )
    max_issues: int = option(100_000, "largest number of labels to list", shapes="nothing", minimum=1)
    similarity: float = option(
        0.85, "smallest similarity, up to 1, of two videos that are listed as near copies", minimum=0.1, maximum=1
    )
    media: str = same_as(EvalConfig, "media", needs="", shapes="nothing")
    dry_run: bool = option(False, "say what would be audited, and write nothing", shapes="nothing")
    overwrite: bool = option(False, "audit anew if the folder has an audit of other data or flags", shapes="nothing")

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.data) == bool(self.videos):
            raise UsageError("name either records by --data, or video files by --videos with --extractors.")
