"""The configs of the programs that use a trained run: evaluation, inference, averaging, adding classes.

They are frozen dataclasses like those of `yt8m.config.train_config`. An option of several programs is declared once,
and inherited or copied by `same_as`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from yt8m import terminal
from yt8m.config.data_config import MOST_CLASSES, DataConfig
from yt8m.config.of_run import OfCheckpoint, OfRun, same_as
from yt8m.config.run_options import DamagePolicy, StorageConfig
from yt8m.config.train_config import DeviceConfig, TrainConfig
from yt8m.deprecation import moved
from yt8m.errors import UsageError
from yt8m.eval_util.requirements import parse_requirements
from yt8m.models import published
from yt8m.options import Checked, option, path_option
from yt8m.records.thresholds import NUM_CANDIDATES, PrecisionTarget
from yt8m.registry import TRUST_HELP, reserve_flags


@dataclass(frozen=True)
class StartFlags(Checked):
    """The flags that name the run whose options a training takes over. They are not saved in the training's config."""

    config: str = path_option("config.json of a run, whose options are taken over unless a flag is given")
    trust_code: bool = option(False, TRUST_HELP)


def batch_option(most: int, remark: str = "", **arguments: Any) -> Any:
    """Declares the option `batch_size` of a program that reads files with a trained model.

    If the user gives no value, `DataConfig.examples_in_batch` computes it.

    Args:
      most: the largest value that is computed.
    """
    text = f"examples per step{remark} [{most}, or fewer if these take more than 512 MiB: 256 videos of 300 x 1,152]"
    return option(None, text, minimum=1, **arguments)


@dataclass(frozen=True, kw_only=True)
class PassConfig(DamagePolicy):
    """The options of one pass over files with a model, which evaluation and inference share.

    Attributes:
      most_in_batch: the largest batch size if the user gives none.
    """

    most_in_batch: ClassVar[int] = 1024

    num_classes: int | None = option(
        None, "number of classes, if the run does not say it", minimum=1, maximum=MOST_CLASSES
    )
    vocabulary: str = same_as(DataConfig, "vocabulary")
    max_frames: int | None = option(None, "frames of a video that are read; by default as in training", minimum=1)
    batch_size: int | None = batch_option(most_in_batch, is_common=True)
    num_readers: int = same_as(DataConfig, "num_readers")
    cache: str = same_as(DataConfig, "cache")
    segment_labels: bool = False
    callbacks: tuple[str, ...] = same_as(TrainConfig, "callbacks")
    log_every_n_steps: int = same_as(TrainConfig, "log_every_n_steps")
    hyper_parameters: Mapping[str, Any] = field(default_factory=dict)
    # {flag of a training: value} that the user gave, as to the published programs; compared with the run.
    stated: Mapping[str, Any] = field(default_factory=dict)
    storage: StorageConfig = field(default_factory=StorageConfig)


@dataclass(frozen=True)
class EvalConfig(PassConfig, OfCheckpoint, is_common=True):
    """The options of an evaluation of one checkpoint, or of each new checkpoint of a run."""

    eval_data_pattern: str = same_as(DataConfig, "data_pattern", aliases=("data",))
    eval_dir: str = path_option("folder for the results; by default train_dir", aliases=("out",))
    segment_labels: bool = option(False, "evaluate on the rated segments of frame records", needs_run=True)
    spans: bool = option(
        False,
        "evaluate spans of time: choose how cells are joined, print mAP at tIoU 0.3 to 0.7, and write eval/spans.json",
        needs_run=True,
    )
    spans_from: str = path_option(
        "evaluate spans as this eval/spans.json joins them, and choose nothing [that of the run, if it was chosen on "
        "other videos at this step]",
        needs="spans",
    )
    num_gpu: int = same_as(DeviceConfig, "num_gpu")
    run_once: bool = option(False, "evaluate the newest checkpoint and end, rather than wait for the next")
    top_k: int = option(NUM_CANDIDATES, "number of best predictions of each video that metrics use", minimum=1)
    keep_best: bool = option(False, "keep a copy of the checkpoint with the best GAP", needs_run=True)
    report: bool = option(
        False,
        "also write eval/report.html, a page of metrics and charts, and eval/thresholds.csv; with --spans instead "
        "eval/spans.html, a page of the worst spans",
        needs_run=True,
    )
    media: str = path_option(
        "CSV file with the columns id,address: makes the ids of videos in the report links (http, https, or files)",
        needs="report",
    )
    min_positives: int = option(
        5, "number of labels that a class needs for a threshold of its own; other classes share one", minimum=1
    )
    target_precision: float | None = option(
        None,
        "thresholds at which the precision on new videos is at least this, rather than those with the best F1",
        minimum=0.01,
        maximum=0.9999,
        needs="report",
    )
    confidence: float = option(
        0.9,
        "probability with which a threshold below target_precision on new videos is refused",
        minimum=0.5,
        maximum=0.9999,
        needs="target_precision",
    )
    precision_of: str = option(
        "class",
        "what has the target precision: each class by itself (class), or all tags together, by one threshold (all)",
        choices=("class", "all"),
        needs="target_precision",
    )
    calibrated_run: str = path_option(
        "folder of a run to write: this LogisticModel with scores that are probabilities, by a slope and an intercept "
        "fitted to the evaluated videos",
        needs="report",
        needs_run=True,
    )
    require: tuple[str, ...] = option(
        (),
        "conditions such as 'gap>=0.82,map_tail>=0.1': end with status 1 unless the whole 95 % interval of each metric "
        "fulfils its condition",
        needs="run_once",
        needs_run=True,
    )
    metrics: tuple[str, ...] = option(
        (), "metrics of your own, as package.module:Class, separated by commas", is_code=True
    )
    json: bool = option(False, f"{terminal.JSON_HELP}, an object for each checkpoint")

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_requirements(self.require)
        if self.calibrated_run and not self.run_once:
            raise UsageError("--calibrated_run calibrates a single checkpoint: add --run_once.")
        if self.target_precision is None:
            return
        if self.top_k != NUM_CANDIDATES:
            raise UsageError(
                f"--target_precision tests the {NUM_CANDIDATES} best classes of each video: leave --top_k out."
            )
        if self.min_positives != EvalConfig.min_positives:
            raise UsageError("--min_positives and --target_precision exclude each other: leave one out.")
        if self.segment_labels:
            raise UsageError(
                "--target_precision is for labels of videos: ratings of segments of one video are not independent. "
                "Leave it out, or --segment_labels."
            )

    @property
    def target(self) -> PrecisionTarget | None:
        """The precision that the thresholds must reach; None for thresholds with the best F1."""
        return None if self.target_precision is None else PrecisionTarget(self.target_precision, self.confidence)


@dataclass(frozen=True)
class InferenceConfig(PassConfig, OfCheckpoint):
    """The options of predictions for files, by a run or by a model that is packed into a .tgz."""

    most_in_batch: ClassVar[int] = 512

    input_data_pattern: str = same_as(DataConfig, "data_pattern", aliases=("data",))
    output_file: str = path_option(
        "where the predictions go (CSV); by default predictions.csv in the run's folder",
        is_common=True,
        aliases=("out",),
    )
    output_model_tgz: str = path_option("pack the model into this .tgz too", is_common=True, needs_run=True)
    input_model_tgz: str = path_option("predict with the model in this .tgz rather than that of a run", is_common=True)
    untar_model_dir: str = path_option(
        "folder that input_model_tgz is unpacked into; by default a private one, removed at the end", is_local=True
    )
    segment_labels: bool = option(
        False, "predict for each 5-second segment of frame records", is_common=True, needs_run=True
    )
    segment_max_pred: int = option(100_000, "largest number of segments listed per class", minimum=1, is_common=True)
    segment_label_ids_file: str = path_option(
        "CSV of the classes that segments may have; by default the published 1000",
        needs="segment_labels",
        is_common=True,
    )
    segment_context: int = option(
        0,
        "number of frames before and after each segment that the model gets too",
        minimum=0,
        maximum=10_000,
        needs="segment_labels",
    )
    segment_shifts: tuple[int, ...] = option(
        (0,),
        "frames by which the window of a segment is shifted; a segment's scores are the mean over these windows",
        minimum=-10_000,
        maximum=10_000,
        needs="segment_labels",
    )
    candidates_from: str = path_option(
        "CSV of predictions for the videos; segments are listed only for the classes predicted for their video",
        needs="segment_labels",
    )
    top_k: int = option(20, "number of predictions listed per video", minimum=1, is_common=True)
    batch_size: int | None = batch_option(most_in_batch, is_common=True)
    num_readers: int = same_as(DataConfig, "num_readers", default=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.train_dir and self.input_model_tgz:
            raise UsageError("--train_dir and --input_model_tgz both name a model; give one of them.")
        if not self.segment_shifts:
            raise UsageError("--segment_shifts is empty: give at least one shift; 0 is the segment itself.")


@dataclass(frozen=True)
class AverageConfig(OfRun):
    """The options of an average of several checkpoints of one run."""

    train_dir: str = same_as(OfRun, "train_dir", flag="model", aliases=("train_dir",))
    last: int | None = option(None, "number of newest checkpoints to average [5]", minimum=2)
    checkpoints: tuple[str, ...] = option((), "steps of the checkpoints to average, in place of the newest")
    out: str = path_option("folder to write, which must not exist yet; eval accepts it as a run", is_required=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.last is not None and self.checkpoints:
            raise UsageError("--last and --checkpoints both choose checkpoints; give one of them.")
        if self.checkpoints and not (len(set(self.checkpoints)) == len(self.checkpoints) > 1):
            steps_text = ",".join(self.checkpoints)
            raise UsageError(f"--checkpoints={steps_text}: name at least two different steps, each once.")
        for step in self.checkpoints:
            if not step.isdecimal():
                raise UsageError(f"--checkpoints: {step!r} is not a step; write steps as 1000,2000,3000.")


@dataclass(frozen=True)
class ImportConfig(Checked, is_common=True):
    """The options of an import of a checkpoint that the code of another group wrote."""

    source: str = option(
        "", f"whose code wrote the checkpoint ({' or '.join(published.SOURCES)})", flag="from", is_required=True
    )
    checkpoint: str = path_option(
        "the checkpoint, such as run/model.ckpt-700000: its prefix, one of its files, or the folder of its run",
        is_required=True,
    )
    out: str = path_option("folder of the run to write, which must not exist yet", is_required=True)
    num_classes: int | None = option(
        None, "number of classes [as many as the checkpoint has]", minimum=1, maximum=MOST_CLASSES
    )


reserve_flags("training", TrainConfig, StartFlags, EvalConfig, InferenceConfig)

if not TYPE_CHECKING:
    __getattr__ = moved(
        __name__,
        "0.3.0",
        {"ExportConfig": "yt8m.config.export_config", "AddClassesConfig": "yt8m.training.growth_config"},
    )


@dataclass(frozen=True)
class AuditConfig(Checked, is_common=True):
    """The flags of `yt8m audit` itself. It also takes flags of `yt8m train`, which say how its models are trained."""

    data: str = path_option(
        "TFRecord files to audit, of all splits; commas between patterns; of records with spans, the spans are audited"
    )
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
    json: bool = option(False, terminal.JSON_HELP, shapes="nothing")

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.data) == bool(self.videos):
            raise UsageError("name either records by --data, or video files by --videos with --extractors.")
