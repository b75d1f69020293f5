"""Sections of a training's config: checkpoints, clusters, validation, buckets, distillation, augmentation, data."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from yt8m.errors import UsageError
from yt8m.options import Checked, changed, declared, option, path_option
from yt8m.storage import base


@dataclass(frozen=True)
class CheckpointConfig(Checked, shapes="nothing"):
    """When checkpoints are saved and exported, and which of them are kept."""

    save_checkpoint_steps: int | None = option(
        None, "steps between checkpoints, besides those of save_checkpoint_minutes", minimum=1, is_common=True
    )
    save_checkpoint_minutes: float = option(15.0, "minutes between checkpoints", minimum=0.001)
    keep_checkpoints: int = option(
        5,
        "number of newest checkpoints to keep, besides one per quarter of an hour; all keeps every checkpoint",
        minimum=0,
        zero_word="all",
    )
    exact_resume: bool = option(False, "save the position in the data too, so that a resumed run skips no example")
    export_model_steps: int = option(
        1000,
        "steps between exported models, besides that of the last step; none exports none, nor the last",
        minimum=0,
        zero_word="none",
    )
    start_new_model: bool = option(
        False, "move an earlier run in train_dir aside and start a new one", belongs_to="start", is_common=True
    )


@dataclass(frozen=True)
class DistributedConfig(Checked, shapes="nothing"):
    """Training on a cluster; only used if TF_CONFIG or CLUSTER_SPEC describes a cluster."""

    sync_replicas: bool = option(False, "chief and workers take each step together, with the mean of their gradients")
    exchange: str = option(
        "parameter-servers",
        "how the processes of a cluster share variables: parameter servers hold them, or each process holds all "
        "variables and the processes sum their gradients (chief and workers only)",
        choices=("parameter-servers", "all-reduce"),
    )
    exchange_dtype: str = option(
        "float32",
        "dtype in which --exchange=all-reduce sends gradients; bfloat16 halves the bytes that are sent",
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
    """Validation during training: on one machine by the training process, in a cluster by the evaluator."""

    eval_data_pattern: str = path_option("files to validate on while training; in a cluster its evaluator reads them")
    eval_every_n_epochs: int | None = option(
        None,
        "epochs between two validations [1]",
        minimum=1,
        needs="eval_data_pattern",
        follows=("eval_every_n_steps",),
    )
    eval_every_n_steps: int | None = option(
        None,
        "steps between two validations, in place of epochs",
        minimum=1,
        needs="eval_data_pattern",
        follows=("eval_every_n_epochs",),
    )
    eval_max_videos: int | None = option(
        None,
        "largest number of videos to validate on: always the same ones, drawn by a hash of their ids",
        minimum=1,
        needs="eval_data_pattern",
    )
    best_metric: str = option(
        "GAP",
        "metric that decides which checkpoint is kept in best/: a name that yt8m eval prints, or package.module:Class",
        needs="eval_data_pattern",
        is_code=True,
    )
    patience: int | None = option(
        None,
        "training ends after this number of validations without a better one [no such end]",
        minimum=1,
        needs="eval_data_pattern",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.eval_every_n_epochs and self.eval_every_n_steps:
            raise UsageError(
                "--eval_every_n_epochs and --eval_every_n_steps both set the interval of validations; give one of them."
            )


@dataclass(frozen=True)
class StorageConfig(Checked, shapes="nothing"):
    """How files in buckets (gs:// paths) are read and written."""

    cache_dir: str = path_option(
        "local folder for copies of files in buckets; by default ~/.cache/yt8m", belongs_to="machine", is_local=True
    )
    stage_cache_bytes: int = option(
        base.STAGE_BYTES,
        "limit on the bytes of copies of shards in cache_dir; those unused for longest are removed first",
        minimum=1,
    )
    gs_reading: str = option(
        "staged",
        "how shards in buckets are read: copied to cache_dir ahead of time, or by TensorFlow itself",
        choices=("staged", "direct"),
    )
    gs_retry_seconds: float = option(
        base.RETRY_SECONDS, "seconds for which a request to a bucket is retried", minimum=0.0
    )

    def use(self) -> None:
        """Applies these settings to all later accesses of this process to buckets."""
        base.configure_storage(base.BucketSettings(**dataclasses.asdict(self)))


def refuse_cache_of_bucket(cache: str, pattern: str, flag: str = "cache") -> None:
    """Raises `UsageError` if there is a cache of records, but the shards are in a bucket.

    Args:
      cache: the folder of the cache; empty if there is none.
    """
    if cache and "gs://" in pattern:
        raise UsageError(
            f"--{flag}={cache} needs local shards, but {pattern} is in a bucket; "
            f"copy the shards to this machine, or leave out --{flag}."
        )


@dataclass(frozen=True)
class DistillConfig(Checked, shapes="graph"):
    """Knowledge distillation: the model learns the predictions of a teacher too (Hinton, Vinyals & Dean 2015)."""

    distill_from: str = path_option(
        "the teacher's predictions for the training data: CSV of `VideoId,LabelConfidencePairs`"
    )
    teacher: str = path_option("the teacher itself: the folder of an evaluated run, or of an export")
    distill_weight: float = option(
        0.5, "weight w of the loss on the teacher's predictions; the label loss has 1 - w", minimum=0, maximum=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.distill_from and self.teacher:
            raise UsageError("--distill_from and --teacher both name a teacher; give one of them.")
        if self.distill_weight != 0.5 and not (self.distill_from or self.teacher):
            raise UsageError(
                f"--distill_weight={self.distill_weight:g} needs a teacher: add --distill_from or --teacher."
            )


@dataclass(frozen=True)
class FrameAugmentConfig(Checked, shapes="graph"):
    """The augmentations that work only on frames."""

    augment_crop: float = option(
        1.0, "smallest share of a video's frames that a random crop in time keeps; 1: no crop", minimum=0.01, maximum=1
    )
    augment_frame_dropout: float = option(
        0.0, "probability with which a frame is left out; 0: no dropout", minimum=0, maximum=0.99
    )


@dataclass(frozen=True)
class AugmentConfig(FrameAugmentConfig, shapes="graph"):
    """Augmentation of the features during training, before the model; off by default."""

    augment_noise: float = option(
        0.0, "standard deviation of normal noise on dequantised features; 0: none", minimum=0, maximum=10
    )
    mixup: float = option(
        0.0,
        "mix each video and its labels with another of the batch, by weights from Beta(mixup, mixup); 0: no mixing",
        minimum=0,
        maximum=100,
    )

    @property
    def needs_frames(self) -> tuple[str, ...]:
        """The names of the enabled augmentations that need frames."""
        return tuple(name for name in changed(self) if name in declared(FrameAugmentConfig))

    @property
    def is_on(self) -> bool:
        """Whether any augmentation is enabled."""
        return bool(changed(self))


@dataclass(frozen=True, kw_only=True)
class DamagePolicy(Checked):
    """How damaged input is handled."""

    manifest: str = path_option(
        "file with the record count of each shard (yt8m verify); by default manifest.json beside the shards",
        shapes="nothing",
        follows=("train_data_pattern",),
    )
    max_bad_records: int = option(
        0,
        "number of bad records to tolerate; the rest of the shard after a bad record is skipped, which the log reports",
        shapes="input",
        shaped_by=bool,
        minimum=0,
        needs_run=True,
    )
    nan_policy: str = option(
        "refuse",
        "what to do with feature values that are NaN, infinite or beyond 1e16: fail, or set them to 0 and count them",
        shapes="input",
        choices=("refuse", "zero"),
        is_reader_argument=True,
    )


@dataclass(frozen=True, kw_only=True)
class SamplingPolicy(Checked):
    """Which examples an epoch of training reads, and how it mixes them."""

    shuffle_buffer: int | None = option(
        None,
        "size of the shuffle buffer, in records [4096 videos, or 256 of frames]",
        shapes="input",
        minimum=1,
        maximum=10_000_000,  # YouTube-8M has fewer records, and tf.data reserves 24 bytes for each place in the buffer
    )
    balance: float = option(
        0.0,
        "read videos of rare classes more often: a class with n videos has the weight n^-balance; 0: read each video "
        "once per epoch",
        shapes="input",
        minimum=0,
        maximum=1,
    )


@dataclass(frozen=True, kw_only=True)
class SegmentPolicy(Checked):
    """What a model gets for a segment: its frames, and possibly the mean over the whole video."""

    film_mean: bool = option(
        False,
        "give the model the mean over the whole video's frames beside each frame, also for a segment",
        shapes="variables",
        needs="frame_features",
        follows=("frame_features",),
    )
    segment_context: int = option(
        0,
        "frames before and after a rated segment that the model sees too, as the means of windows of several lengths "
        "[of spans, if the model is chosen: those of five seconds, at least a segment]",
        shapes="variables",
        minimum=0,
        maximum=10_000,
        needs="frame_features",
        follows=("frame_features",),
        is_reader_argument=True,
    )
    segment_size: int = option(
        5, "number of frames of a segment", shapes="input", minimum=1, is_flag=False, is_reader_argument=True
    )
    # The frames of a second, from the manifest of records of spans; times of predicted spans are computed from it.
    frames_per_second: float = option(1.0, "frames per second", shapes="nothing", minimum=1e-6, is_flag=False)
