"""How gs:// paths are used; training, evaluation and inference have the same options for it.

How the processes of a cluster train together; which they are, TF_CONFIG says.

How a run learns beside its data and its model: steps, a teacher, noise on the features.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from yt8m import options
from yt8m.errors import UsageError
from yt8m.options import option
from yt8m.storage import base


@dataclass(frozen=True)
class StorageConfig:
    """Only read where a path begins with gs://."""

    cache_dir: str = option("", "local folder for copies of what is in buckets; ~/.cache/yt8m if not named")
    stage_cache_bytes: int = option(
        base.STAGE_BYTES, "bytes of shards from buckets that are kept there; the oldest go", minimum=1
    )
    gs_reading: str = option(
        "staged",
        "how shards in buckets are read: staged in that cache ahead of time, or by TensorFlow itself",
        choices=("staged", "direct"),
    )
    gs_retry_seconds: float = option(base.RETRY_SECONDS, "how long a request to a bucket is tried again", minimum=0.0)

    def __post_init__(self) -> None:
        options.check(self)

    def use(self) -> None:
        """Makes these the settings of this process."""
        base.configure_storage(base.Settings(**dataclasses.asdict(self)))


STALL_TIMEOUT = 600.0
STALL_HELP = "seconds that a process of a cluster waits for the others in vain before it fails"


@dataclass(frozen=True)
class DistributedConfig:
    """Only read where TF_CONFIG or CLUSTER_SPEC describes a cluster."""

    sync_replicas: bool = option(False, "chief and workers take each step together, on the mean of their gradients")
    stall_timeout: float = option(STALL_TIMEOUT, STALL_HELP, minimum=1.0)
    eval_data_pattern: str = option("", "what a cluster's evaluator reads; as eval.py's flag")

    def __post_init__(self) -> None:
        options.check(self)


@dataclass(frozen=True)
class OptimizerConfig:
    """How gradients become steps. Everything about the learning rate counts examples (all towers)."""

    optimizer: str = option("AdamOptimizer", "class name of a TensorFlow 1 optimizer, or AdamWOptimizer")
    base_learning_rate: float = option(0.01, "the learning rate before any decay", minimum=1e-12, maximum=1e6)
    learning_rate_schedule: str = option(
        "exponential",
        "how the learning rate falls: in stairs, by half a cosine to 0, or not at all",
        choices=("exponential", "cosine", "constant"),
    )
    learning_rate_decay: float = option(
        0.95, "factor of the learning rate, once every learning_rate_decay_examples", minimum=1e-6, maximum=1
    )
    learning_rate_decay_examples: float = option(
        4_000_000, "examples between two decays; with cosine, those at which the rate is 0", minimum=1
    )
    learning_rate_warmup_examples: float = option(
        0, "examples over which the learning rate rises to its value in a straight line", minimum=0
    )
    weight_decay: float | None = option(
        None, "AdamWOptimizer's decay of matrices, times the learning rate [0.01]", minimum=0, maximum=1
    )
    clip_gradient_norm: float = option(1.0, "largest norm of a gradient; 0: no clipping", minimum=0)
    clip_by: str = option(
        "variable",
        "whose norm is clipped: each variable's, or that of all of them together",
        choices=("variable", "global"),
    )
    accumulate_steps: int = option(
        1, "batches whose gradients together make one step of the optimizer", minimum=1, maximum=1_000_000
    )
    regularization_penalty: float = option(1.0, "weight of the regularization loss in the total", minimum=0)
    combine_gradients: str = option(
        "mean", "how the gradients of towers become one; the published code takes the sum", choices=("mean", "sum")
    )
    moving_average_decay: float = option(
        0.0, "decay of the weights' moving averages, which eval and export use; 0: none", minimum=0, maximum=0.999999
    )

    def __post_init__(self) -> None:
        options.check(self)
        warmup, end = self.learning_rate_warmup_examples, self.learning_rate_decay_examples
        if self.learning_rate_schedule == "cosine" and warmup >= end:
            raise UsageError(
                f"--learning_rate_warmup_examples={warmup:g} does not end before the cosine does "
                f"(--learning_rate_decay_examples={end:g}); give the whole run's examples to the latter."
            )
        if self.weight_decay is not None and self.optimizer != "AdamWOptimizer":
            raise UsageError(
                f"--weight_decay={self.weight_decay:g} has no effect with --optimizer={self.optimizer}; "
                "choose AdamWOptimizer, or leave it out."
            )


@dataclass(frozen=True)
class DistillConfig:
    """A teacher whose probabilities are learned beside the labels (Hinton, Vinyals & Dean 2015)."""

    distill_from: str = option(
        "", "the teacher's predictions for the training data: CSV of `VideoId,LabelConfidencePairs`"
    )
    teacher: str = option("", "the teacher itself: the folder of an evaluated run, or of an export")
    distill_weight: float = option(
        0.5, "share of the teacher in the loss; the labels have the rest", minimum=0, maximum=1
    )

    def __post_init__(self) -> None:
        options.check(self)
        if self.distill_from and self.teacher:
            raise UsageError("--distill_from and --teacher both name a teacher; give one of them.")
        if self.distill_weight != 0.5 and not (self.distill_from or self.teacher):
            raise UsageError(
                f"--distill_weight={self.distill_weight:g} needs a teacher: add --distill_from or --teacher."
            )


@dataclass(frozen=True)
class AugmentConfig:
    """What training does to the features, before any model sees them. All of it is off by default."""

    augment_crop: float = option(
        1.0, "smallest part of a video's frames that a random crop in time leaves; 1: no crop", minimum=0.01, maximum=1
    )
    augment_frame_dropout: float = option(0.0, "chance that a frame is left out; 0: none", minimum=0, maximum=0.99)
    augment_noise: float = option(
        0.0, "standard deviation of normal noise on dequantised features; 0: none", minimum=0, maximum=10
    )

    def __post_init__(self) -> None:
        options.check(self)

    @property
    def needs_frames(self) -> tuple[str, ...]:
        """The fields that are on and mean nothing without frames."""
        chosen = {"augment_crop": self.augment_crop < 1, "augment_frame_dropout": self.augment_frame_dropout > 0}
        return tuple(name for name, is_on in chosen.items() if is_on)

    @property
    def is_on(self) -> bool:
        """Whether anything is changed at all."""
        return bool(self.needs_frames) or self.augment_noise > 0
