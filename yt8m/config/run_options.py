"""The parts of a training's config that shape no graph: checkpoints, validation, clusters and buckets."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from yt8m.errors import UsageError
from yt8m.options import Checked, option
from yt8m.storage import base


@dataclass(frozen=True)
class CheckpointConfig(Checked, shapes="nothing"):
    """When checkpoints are saved, and which are kept."""

    save_checkpoint_steps: int | None = option(
        None, "steps between checkpoints, besides those of save_checkpoint_minutes", minimum=1
    )
    save_checkpoint_minutes: float = option(15.0, "minutes between checkpoints", minimum=0.001)
    keep_checkpoints: int = option(
        5, "number of newest checkpoints to keep, besides one per quarter of an hour", minimum=1
    )
    exact_resume: bool = option(False, "save the position in the data too, so that a resumed run skips no example")
    export_model_steps: int = option(1000, "steps between exported models", minimum=1)
    start_new_model: bool = option(False, "move an earlier run in train_dir aside and start a new one")


@dataclass(frozen=True)
class DistributedConfig(Checked, shapes="nothing"):
    """Training on a cluster; only used if TF_CONFIG or CLUSTER_SPEC describes a cluster."""

    sync_replicas: bool = option(False, "chief and workers take each step together, on the mean of their gradients")
    exchange: str = option(
        "parameter-servers",
        "how the processes of a cluster share what they learn: parameter servers hold the variables, or each process "
        "has all variables and they sum their gradients (chief and workers only)",
        choices=("parameter-servers", "all-reduce"),
    )
    exchange_dtype: str = option(
        "float32",
        "dtype in which --exchange=all-reduce sends gradients; bfloat16 halves what is sent",
        choices=("float32", "bfloat16"),
    )
    check_replicas_steps: int = option(
        1000, "steps after which --exchange=all-reduce compares the variables of all processes; 0 for never", minimum=0
    )
    stall_timeout: float = option(
        600.0, "seconds that a process of a cluster waits for the others before it fails", minimum=1.0
    )


@dataclass(frozen=True)
class ValidationConfig(Checked, shapes="nothing"):
    """Validation while training. On one machine the training process does it, in a cluster the evaluator."""

    eval_data_pattern: str = option("", "files to validate on while training; in a cluster its evaluator reads them")
    eval_every_n_epochs: int | None = option(None, "epochs between two validations [1]", minimum=1)
    eval_every_n_steps: int | None = option(None, "steps between two validations, in place of epochs", minimum=1)
    eval_max_videos: int | None = option(
        None, "largest number of videos to validate on: always the same ones, drawn by a hash of their ids", minimum=1
    )
    best_metric: str = option(
        "GAP",
        "metric that decides which checkpoint is kept in best/: a name that yt8m eval prints, or package.module:Class",
    )
    patience: int | None = option(None, "number of validations after the best one with which training ends", minimum=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eval_every_n_epochs and self.eval_every_n_steps:
            raise UsageError("--eval_every_n_epochs and --eval_every_n_steps both say when to validate; give one.")
        for name in () if self.eval_data_pattern else self.given():
            raise UsageError(f"--{name} is for validation: add --eval_data_pattern, or leave it out.")

    def given(self) -> list[str]:
        """The options that are not at their defaults, without eval_data_pattern."""
        fields = [field for field in dataclasses.fields(self) if field.name != "eval_data_pattern"]
        return [field.name for field in fields if getattr(self, field.name) != field.default]


@dataclass(frozen=True)
class StorageConfig(Checked, shapes="nothing"):
    """How gs:// paths are read and written; only used if a path begins with gs://."""

    cache_dir: str = option("", "local folder for copies of files in buckets; by default ~/.cache/yt8m")
    stage_cache_bytes: int = option(
        base.STAGE_BYTES,
        "limit on the bytes of copies of shards in cache_dir; those unused for longest are removed first",
        minimum=1,
    )
    # Whether the graph calls Python to stage shards is not declared here: the inputter tells the runner.
    gs_reading: str = option(
        "staged",
        "how shards in buckets are read: copied to cache_dir ahead of time, or by TensorFlow itself",
        choices=("staged", "direct"),
    )
    gs_retry_seconds: float = option(
        base.RETRY_SECONDS, "seconds for which a request to a bucket is retried", minimum=0.0
    )

    def use(self) -> None:
        """Makes these the storage settings of this process."""
        base.configure_storage(base.BucketSettings(**dataclasses.asdict(self)))
