"""The flags of `yt8m bulk infer | rank | eval | extract`, which process many shards with Apache Beam.

Beam distributes the shards over worker processes on one machine or on many. On one machine `yt8m inference` is faster;
these commands are for data that one machine cannot read in the available time.
"""

from __future__ import annotations

import dataclasses
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, NamedTuple

from yt8m import options, storage, terminal
from yt8m.config.data_config import DataConfig
from yt8m.config.of_run import OfCheckpoint, OfRun, same_as
from yt8m.config.programs import EvalConfig, InferenceConfig, batch_option
from yt8m.config.run_options import DamagePolicy
from yt8m.datasets.extract import ExtractConfig
from yt8m.errors import UsageError
from yt8m.options import option, path_option
from yt8m.registry import reserve_flags
from yt8m.scoring.predict_config import PredictConfig


@dataclass(frozen=True)
class BulkConfig(DamagePolicy):
    """The flags that `yt8m bulk infer`, `rank` and `eval` share.

    Attributes:
      most_in_batch: the largest batch size that is chosen if the user gives none.
    """

    most_in_batch: ClassVar[int] = InferenceConfig.most_in_batch

    model: str = path_option(
        "folder of a run or of an export, an archive (.tgz), or an ONNX file; local or gs://",
        aliases=("train_dir",),
        is_required=True,
    )
    data: str = path_option(
        "TFRecord files, local or gs://; commas between patterns",
        shapes="nothing",  # with --resume, the files themselves are compared, not their pattern
        aliases=("input",),
        is_required=True,
    )
    out: str = path_option(
        "folder for the results, local or gs://", shapes="nothing", aliases=("output",), is_required=True
    )
    checkpoint: str = same_as(OfCheckpoint, "checkpoint")
    runner: str = option(
        "DirectRunner", "the Beam runner; DirectRunner starts worker processes on this machine", shapes="nothing"
    )
    workers: int = option(2, "worker processes of DirectRunner", shapes="nothing", minimum=1, maximum=1024)
    batch_size: int | None = batch_option(most_in_batch, "; a smaller batch is padded to this size")
    cache: str = same_as(DataConfig, "cache", shapes="nothing")
    top_k: int = option(20, "number of best predictions of each video that are listed or judged", minimum=1)
    trust_code: bool = same_as(OfRun, "trust_code", shapes="nothing")

    def inference_config(self) -> InferenceConfig:
        """The config of `yt8m inference` with the same values, with which the model of a run is opened.

        Its `segment_labels` is True for `rank` alone.
        """
        shared = {field.name for field in dataclasses.fields(InferenceConfig) if hasattr(self, field.name)}
        values = {name: getattr(self, name) for name in sorted(shared)}
        return InferenceConfig(**{**values, "segment_labels": isinstance(self, RankBulk)})


@dataclass(frozen=True)
class InferBulk(BulkConfig):
    """The flags of `yt8m bulk infer`."""

    resume: bool = option(
        False, "keep the complete files of an interrupted job, and write those that are missing", shapes="nothing"
    )
    spans: bool = option(
        False,
        "write the spans of time in which the model finds each class, as yt8m predict --spans does, in place of the "
        "best classes of videos",
    )
    spans_from: str = same_as(PredictConfig, "spans_from")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.spans and self.cache:
            raise UsageError("--spans reads the records themselves: leave out --cache.")


@dataclass(frozen=True)
class RankBulk(BulkConfig):
    """The flags of `yt8m bulk rank`."""

    segment_max_pred: int = same_as(InferenceConfig, "segment_max_pred")
    segment_label_ids_file: str = same_as(InferenceConfig, "segment_label_ids_file", needs="")
    segment_context: int = same_as(InferenceConfig, "segment_context", needs="")
    segment_shifts: tuple[int, ...] = same_as(InferenceConfig, "segment_shifts", needs="")
    candidates_from: str = same_as(InferenceConfig, "candidates_from", needs="")
    json: bool = same_as(EvalConfig, "json", help=terminal.JSON_HELP, shapes="nothing")


@dataclass(frozen=True)
class EvalBulk(BulkConfig):
    """The flags of `yt8m bulk eval`."""

    most_in_batch: ClassVar[int] = EvalConfig.most_in_batch

    segment_labels: bool = same_as(EvalConfig, "segment_labels")
    json: bool = same_as(EvalConfig, "json", help=terminal.JSON_HELP, shapes="nothing")
    batch_size: int | None = batch_option(most_in_batch)


@dataclass(frozen=True)
class ExtractBulk(ExtractConfig):
    """The flags of `yt8m bulk extract`."""

    _: KW_ONLY
    runner: str = same_as(BulkConfig, "runner")
    workers: int = same_as(BulkConfig, "workers")
    jobs: int = option(
        1,
        "number of processes of each worker that decode videos; 0 for one per CPU core",
        shapes="nothing",
        minimum=0,
        maximum=256,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fetch_weights:
            raise UsageError(
                "--fetch_weights is a flag of yt8m extract; leave it out: each worker of yt8m bulk "
                "fetches weights that it lacks."
            )


reserve_flags("extraction", ExtractBulk)

PARTS = "parts"  # the folder for intermediate files, in the output folder; it is removed when the job succeeds
WORKERS_LOG = "workers.log"  # the file with the output of DirectRunner's worker processes, until the job succeeds


class ShardTask(NamedTuple):
    """One shard of a job.

    Attributes:
      number: the index of the shard in the sorted list of shards.
      output: path of the file for the shard's predictions; empty if the command writes no predictions.
    """

    number: int
    path: str
    output: str = ""


class Done(NamedTuple):
    """The outcome of one shard.

    Attributes:
      bad: the record at which reading ended, and what is wrong with it; empty if all records were read.
      error: why the shard failed; empty if it succeeded.
    """

    number: int
    records: int = 0
    bad: str = ""
    error: str = ""


class BulkCommand(NamedTuple):
    """A command of `yt8m bulk`."""

    config: type[BulkConfig] | type[ExtractBulk]
    purpose: str
    result: str


# {command: its flags, purpose and last file}
COMMANDS = {
    "infer": BulkCommand(InferBulk, "Predicts for every video, into one CSV file for each shard.", "predictions.json"),
    "rank": BulkCommand(RankBulk, "Ranks the segments of every video by class, into segments.csv.", "segments.csv"),
    "eval": BulkCommand(EvalBulk, "Evaluates a model on labelled records.", "report.json"),
    "extract": BulkCommand(ExtractBulk, "Makes records out of video files, as yt8m extract does.", "summary.json"),
}


def with_absolute_paths(config: BulkConfig) -> BulkConfig:
    """The config with absolute local paths, because workers may run in another working directory."""
    paths = {name: getattr(config, name) for name in options.paths_where(config, is_path=True) if name != "data"}
    changed: Any = {name: storage.absolute(path) for name, path in paths.items() if path}
    return dataclasses.replace(config, **changed, data=storage.absolute_patterns(config.data))
