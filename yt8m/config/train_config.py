"""The config of a training run, as frozen dataclasses, from which the flags and config.json are derived.

Each field declares its default, its help, its bounds, and what it shapes: the variables, the graph, the input or
nothing (see `yt8m.options.option`). `yt8m.config.resume` decides by what an option shapes whether a resumed run may
change it. The constructors raise `UsageError` for values out of bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m import terminal
from yt8m.config.data_config import DataConfig
from yt8m.config.run_options import (
    AugmentConfig,
    CheckpointConfig,
    DistillConfig,
    DistributedConfig,
    StorageConfig,
    ValidationConfig,
)
from yt8m.config.search_config import ModelSearchConfig
from yt8m.errors import UsageError
from yt8m.options import Checked, option, path_option


@dataclass(frozen=True)
class ModelConfig(Checked):
    """The names of the model and of the label loss, and {name: value} of the hyper-parameters of each."""

    model: str = option(
        "LogisticModel",
        "one below, of a package, or module:Class [LogisticModel; yours: auto]",
        shapes="variables",
        is_common=True,
        is_compared=False,  # a comparison of runs shows the model in a column or line of its own
        is_code=True,
        is_published=True,
    )
    hyper_parameters: Mapping[str, Any] = field(default_factory=dict)
    label_loss: str = option(
        "CrossEntropyLoss",
        "loss: one below, of a package, or module:Class",
        shapes="graph",
        is_common=True,
        is_code=True,
        is_published=True,
    )
    loss_hyper_parameters: Mapping[str, Any] = field(default_factory=dict)
    class_weights: str = path_option(
        "table with the columns class,weight: how much each class counts in the loss; a class without a row counts 1",
        shapes="nothing",
        follows=("train_data_pattern",),
        is_compared=False,  # the values are compared
    )
    # The values that --class_weights had when the run began; empty if all classes count alike.
    weight_of_class: tuple[float, ...] = option(
        (), "how much each class counts in the loss", is_flag=False, shapes="graph", follows=("train_data_pattern",)
    )

    @property
    def loss_weights(self) -> NDArray[np.float32] | None:
        """float32 [C], how much each class counts in the loss of a training; None if all count alike."""
        return np.array(self.weight_of_class, np.float32) if self.weight_of_class else None


@dataclass(frozen=True)
class OptimizerConfig(Checked, shapes="graph"):
    """How gradients update the weights. The learning rate schedule counts the examples of all towers (one per GPU)."""

    optimizer: str = option("AdamOptimizer", "the optimizer: one listed below, or package.module:Class", is_code=True)
    base_learning_rate: float = option(
        0.01, "the learning rate before any decay", minimum=1e-12, maximum=1e6, is_common=True
    )
    learning_rate_schedule: str = option(
        "exponential",
        "how the learning rate falls: in steps, along half a cosine to 0, or not at all",
        choices=("exponential", "cosine", "constant"),
    )
    learning_rate_decay: float = option(
        0.95, "factor by which each decay multiplies the learning rate", minimum=1e-6, maximum=1, is_common=True
    )
    learning_rate_decay_examples: float = option(
        4_000_000, "examples between decays (cosine: until the rate is 0)", minimum=1, is_common=True
    )
    learning_rate_warmup_examples: float = option(
        0, "examples during which the learning rate rises linearly from 0; 0: no warm-up", minimum=0
    )
    weight_decay: float | None = option(
        None,
        "with AdamWOptimizer: each step subtracts this share of each weight matrix, times the learning rate [0.01]",
        minimum=0,
        maximum=1,
        follows=("optimizer",),
    )
    clip_gradient_norm: float = option(1.0, "largest norm of a gradient; 0: no clipping", minimum=0)
    clip_by: str = option(
        "variable",
        "what clip_gradient_norm limits: the norm of each variable's gradient, or of all gradients together",
        choices=("variable", "global"),
    )
    accumulate_steps: int = option(
        1, "number of batches whose mean gradient is applied in one optimizer step", minimum=1, maximum=1_000_000
    )
    regularization_penalty: float = option(1.0, "weight of the regularization loss in the total", minimum=0)
    combine_gradients: str = option(
        "mean",
        "how the gradients of the towers are combined; the published code takes the sum",
        choices=("mean", "sum"),
    )
    moving_average_decay: float = option(
        0.0,
        "decay of the moving averages of the weights, for eval and export; in step n at most (1 + n)/(10 + n); 0: none",
        minimum=0,
        maximum=0.999999,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        warmup, end = self.learning_rate_warmup_examples, self.learning_rate_decay_examples
        if self.learning_rate_schedule == "cosine" and warmup >= end:
            raise UsageError(
                f"--learning_rate_warmup_examples={warmup:g} must be below --learning_rate_decay_examples={end:g}, "
                "where the cosine ends; set the latter to the number of examples of the whole run."
            )
        if self.weight_decay is not None and self.optimizer != "AdamWOptimizer" and ":" not in self.optimizer:
            raise UsageError(
                f"--weight_decay={self.weight_decay:g} has no effect with --optimizer={self.optimizer}; "
                "choose AdamWOptimizer, or leave out --weight_decay."
            )


@dataclass(frozen=True)
class DeviceConfig(Checked, shapes="graph"):
    """The devices of a run, and how they compute."""

    num_gpu: int = option(
        1, "towers: one per GPU, at most N; without a GPU N towers on the CPU", minimum=1, maximum=1024, is_common=True
    )
    precision: str = option(
        "float32", "dtype of matrix products", choices=("float32", "bfloat16", "float16"), is_common=True
    )
    sync_batch_norm: bool = option(
        False, "compute the statistics of batch norm over all towers of this process, as if they were one tower"
    )
    prefetch_to_device: bool = option(
        False, "copy the next step's batch to the towers' devices during the current step"
    )
    # `xla` and the options after it are settings of the session, not of the graph, so they shape nothing.
    xla: bool = option(
        False, "compile the step with XLA; fuses all ops but products; useful mainly on GPUs", shapes="nothing"
    )
    log_device_placement: bool = option(False, "log which device each op runs on", shapes="nothing")
    profile: tuple[int, ...] = option(
        (), "FIRST,LAST: the steps to trace for TensorBoard's profiler, such as 100,105", shapes="nothing"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        ordered = len(self.profile) == 2 and 1 <= self.profile[0] <= self.profile[1]
        if self.profile and not ordered:
            raise UsageError(
                f"--profile={','.join(map(str, self.profile))}: give the first and the last step of the "
                "trace, such as --profile=100,105; the first step of a run is 1."
            )


@dataclass(frozen=True, kw_only=True)
class EngineConfig(Checked):
    """The options of the runner that do not depend on what it trains; `TrainConfig` and `RunnerConfig` inherit them."""

    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    devices: DeviceConfig = field(default_factory=DeviceConfig)
    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)
    distributed: DistributedConfig = field(default_factory=DistributedConfig)
    max_steps: int | None = option(
        None,
        "step after which training ends, over all starts; 0: initial weights",
        shapes="nothing",
        minimum=0,
        is_common=True,
    )
    log_every_n_steps: int = option(
        10, "steps between two lines in the log", shapes="nothing", minimum=1, is_common=True
    )
    save_summary_steps: int = option(
        100, "steps between summaries for TensorBoard; also at the first step; 0: none", shapes="nothing", minimum=0
    )
    seed: int = option(
        0, "seed of weights, sampling and the order of examples", shapes="input", minimum=0, maximum=2**31 - 1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.devices.prefetch_to_device and self.checkpoints.exact_resume:
            raise UsageError(
                "--exact_resume saves how far the input has read. With --prefetch_to_device the input is one batch "
                "ahead of the training, so a resumed run would skip that batch. Leave out one of the two flags."
            )


@dataclass(frozen=True)
class RunConfig(Checked):
    """The folder of a run, its data and its model."""

    train_dir: str = path_option(
        "folder of the run; by default a new one under runs/",
        shapes="nothing",
        belongs_to="start",
        is_common=True,
        aliases=("out",),
    )
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)


# The optimizers that --train_only=new accepts: they never change a weight whose gradient is always 0. AdamWOptimizer
# then decays only the weights of the classes that are trained.
_STAY_AT_ZERO_GRADIENT = ("AdamOptimizer", "AdamWOptimizer", "GradientDescentOptimizer", "MomentumOptimizer")


@dataclass(frozen=True)
class TrainConfig(EngineConfig, RunConfig):  # a dataclass has the fields of its last base first, here of RunConfig
    """All options of a training run."""

    callbacks: tuple[str, ...] = option(
        (),
        "callbacks to add, by name (of an installed package, too) or package.module:Class, separated by commas; -name "
        "removes a default callback",
        shapes="nothing",
        is_code=True,
    )
    init_from: str = path_option(
        "folder of a run to read the initial weights from, by the names of variables and classes", shapes="nothing"
    )
    rename: str = path_option(
        "CSV file with the columns old,new: classes of --init_from that have another name now",
        shapes="nothing",
        needs="init_from",
    )
    train_only: str = option(
        "",
        "new: train only the weights of the classes that --init_from lacks",
        shapes="variables",
        choices=("", "new"),
        needs="init_from",
    )
    export_dir: str = path_option(
        "folder to which the trained model is exported as a SavedModel when training has ended",
        shapes="nothing",
        belongs_to="start",
    )
    log_dir: str = path_option(
        "folder of the event files for TensorBoard; by default train_dir", shapes="nothing", belongs_to="start"
    )
    json: bool = option(False, terminal.JSON_HELP, shapes="nothing", belongs_to="start")
    distillation: DistillConfig = field(default_factory=DistillConfig)
    augmentation: AugmentConfig = field(default_factory=AugmentConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    storage: StorageConfig = field(default_factory=StorageConfig)
    search: ModelSearchConfig = field(default_factory=ModelSearchConfig)
    # Which checkpoint the folder of the run means: the best if the training chose its own validation, else the newest.
    checkpoint: str = option(
        "last", "checkpoint that the run means", shapes="nothing", choices=("last", "best"), is_flag=False
    )

    @property
    def validates_on_held_out(self) -> bool:
        """Whether the validations read those of the training videos that are held out."""
        return bool(self.data.held_out) and self.validation.eval_data_pattern == self.data.data_pattern

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.train_only and self.optimizer.optimizer not in _STAY_AT_ZERO_GRADIENT:
            raise UsageError(
                f"--train_only=new: {self.optimizer.optimizer} may change a weight whose gradient is 0; choose "
                f"{' or '.join(_STAY_AT_ZERO_GRADIENT)}."
            )
        if self.export_dir and not self.checkpoints.export_model_steps:
            raise UsageError("--export_model_steps=none exports no model for --export_dir; leave out one of the two.")
        for name in () if self.data.frame_features else self.augmentation.needs_frames:
            raise UsageError(
                f"--{name}={getattr(self.augmentation, name)} needs frames: add --frame_features, "
                f"or leave out --{name}; --augment_noise works on videos too."
            )
        for name in self.augmentation.needs_frames if self.data.segment_context else ():
            raise UsageError(
                f"--{name}={getattr(self.augmentation, name)} takes frames away, by whose places a model with "
                f"--segment_context={self.data.segment_context} tells those of a segment from those beside it. Leave "
                f"out --{name}, or give --segment_context=0; --augment_noise and --mixup keep the frames."
            )
        if self.distillation.distill_from and self.data.segment_labels:
            raise UsageError(
                "--distill_from looks predictions up by video, but --segment_labels learns from segments; "
                "use --teacher with a model of frames."
            )
        if self.data.balance and self.data.segment_labels:
            raise UsageError(
                f"--balance={self.data.balance:g} weighs videos by their labels, but --segment_labels learns from the "
                "ratings of segments. Leave out one of the two."
            )
        self.data.check_cache()
