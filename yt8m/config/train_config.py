"""The config of a training run, as frozen dataclasses, from which the flags and config.json are derived.

Each field declares its default, its help, its bounds, and what it shapes: the variables, the graph, the input or
nothing (see `yt8m.options.option`). `yt8m.config.resume` decides by what an option shapes whether a resumed run may
change it. The constructors raise `UsageError` for values out of bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from yt8m.config.run_options import (
    AugmentConfig,
    CheckpointConfig,
    DamagePolicy,
    DistillConfig,
    DistributedConfig,
    SamplingPolicy,
    SegmentPolicy,
    StorageConfig,
    ValidationConfig,
    refuse_cache_of_bucket,
)
from yt8m.errors import UsageError
from yt8m.options import Checked, option, path_option
from yt8m.records.data_format import usual_range, videos_in_batch

MOST_CLASSES = 10_000_000  # limit of --num_classes, at which the scores of one video take 40 MB

# {feature of YouTube-8M's records: number of its values}
KNOWN_SIZES = {"mean_rgb": 1024, "mean_audio": 128, "rgb": 1024, "audio": 128}


@dataclass(frozen=True)
class DataConfig(SegmentPolicy, SamplingPolicy, DamagePolicy):
    """Which data are read, and how."""

    data_pattern: str = path_option(
        "TFRecord files, local or gs://; commas between patterns [sample data]",
        shapes="nothing",
        flag="train_data_pattern",
        is_common=True,
    )
    feature_names: tuple[str, ...] = option(
        ("mean_rgb", "mean_audio"),
        "features to read [all of yours; mean_rgb or rgb of YouTube-8M]",
        shapes="variables",
        follows=("frame_features",),
        is_common=True,
        is_published=True,
        is_reader_argument=True,
    )
    feature_sizes: tuple[int, ...] = option(
        (1024, 128),
        "number of values of each feature, in the same order [as in the data]",
        shapes="variables",
        follows=("frame_features", "feature_names"),
        is_common=True,
        is_published=True,
        is_reader_argument=True,
    )
    frame_features: bool = option(
        False,
        "the records hold a feature vector per frame, not only one per video",
        shapes="variables",
        is_common=True,
        is_published=True,
    )
    segment_labels: bool = option(
        False,
        "learn from the rated 5-second segments of frame records",
        shapes="input",
        needs="frame_features",
        follows=("frame_features",),
        is_common=True,
        is_published=True,
        is_reader_argument=True,
    )
    num_classes: int = option(
        3862,
        "number of classes [as many as the vocabulary has, else 3862]",
        shapes="variables",
        minimum=1,
        maximum=MOST_CLASSES,
        follows=("train_data_pattern",),
        is_common=True,
        is_reader_argument=True,
    )
    vocabulary: str = path_option(
        "CSV of the classes' names, with the columns index,name; by default vocabulary.csv beside the shards, or one "
        "or two folders above them",
        shapes="nothing",
        follows=("train_data_pattern",),
        is_compared=False,  # a comparison of runs compares the names of the classes instead
    )
    max_frames: int = option(
        300, "frames of a video that are read, from its start", shapes="graph", minimum=1, is_reader_argument=True
    )
    batch_size: int = option(1024, "examples per tower and step", shapes="input", minimum=1, is_common=True)
    num_readers: int = option(8, "files that are read in parallel", shapes="input", minimum=1, maximum=10_000)
    parse_threads: int | None = option(
        None,
        "number of batches parsed in parallel [set by the number of cores]",
        shapes="input",
        belongs_to="machine",
        minimum=1,
        maximum=10_000,
    )
    prefetch: int | None = option(
        None,
        "number of parsed batches that are kept ready for the next steps [set by the number of cores; 0 for whole "
        "videos of frames]",
        shapes="input",
        belongs_to="machine",
        minimum=0,
    )
    num_epochs: int | None = option(5, "passes over the data", shapes="input", minimum=1, is_common=True)
    # The seed of the run, `EngineConfig.seed`, is copied here. Only that option has a flag and declares what it shapes.
    seed: int = option(
        0,
        "seed of the order of examples",
        shapes="nothing",
        minimum=0,
        maximum=2**31 - 1,
        is_flag=False,
        is_compared=False,
    )
    reader: str = option(
        "",
        "your own reader, for records of another layout, as package.module:Class [YouTube-8M's]",
        shapes="input",
        is_code=True,
    )
    # If a run is resumed, only a change between cache and no cache counts, not another folder.
    cache: str = path_option(
        "local folder that caches parsed records for later passes over them",
        shapes="input",
        shaped_by=bool,
        belongs_to="machine",
        is_local=True,
        needs_run=True,
    )
    # The value comes from the data's manifest: () if all features have YouTube-8M's range, else one entry per feature.
    # An entry is (lowest, highest value of the range of the bytes), or () for a feature that is stored as floats.
    feature_ranges: tuple[tuple[float, ...], ...] = option(
        (),
        "ranges of features stored as bytes",
        shapes="graph",
        follows=("frame_features", "feature_names", "feature_sizes"),
        is_flag=False,
        is_reader_argument=True,
    )
    # The extractors that `yt8m extract` used, from the data's manifest; `yt8m predict` uses them again.
    extractors: tuple[Mapping[str, Any], ...] = option(
        (), "extractors of the features", shapes="nothing", is_flag=False
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_features(self.feature_names, self.feature_sizes, self.feature_ranges)

    def examples_in_batch(self, most: int, context: int = 0) -> int:
        """Computes the batch size of an evaluation or inference for which the user gives none.

        Args:
          most: the largest batch size; the result is smaller if `most` examples take more than 512 MiB.
          context: number of frames that are read before, and also after, each segment.
        """
        segment_frames = self.segment_size + 2 * context
        frames = 1 if not self.frame_features else segment_frames if self.segment_labels else self.max_frames
        return videos_in_batch(frames * sum(self.feature_sizes), most)

    def check_cache(self) -> None:
        """Raises `UsageError` if the cache cannot be used together with another option."""
        if not self.cache:
            return
        flag_text = f"--cache={self.cache}"
        if self.reader:
            raise UsageError(
                f"{flag_text}: the cache does not notice changes of the code of --reader={self.reader}, and would keep "
                "records that older code parsed. Leave out one of the two flags."
            )
        refuse_cache_of_bucket(self.cache, self.data_pattern)
        level = "frame" if self.frame_features else "video"
        ranges = self.feature_ranges or [usual_range(level, name) for name in self.feature_names]
        if self.nan_policy != "refuse" and not all(ranges):  # features stored as bytes are never NaN
            raise UsageError(
                f"{flag_text} parses a record only once, so later passes could not count the values that "
                "--nan_policy=zero sets to 0. Leave out one of the two flags."
            )


def check_features(names: Sequence[str], sizes: Sequence[int], ranges: Sequence[Sequence[float]]) -> None:
    """Refuses lists of feature names, sizes and ranges that do not fit each other.

    Args:
      names: the names of the features.
      sizes: the number of values of each feature.
      ranges: for each feature the (lowest, highest value) that its bytes stand for, or () if it is stored as floats.
        Empty if all features have the range of YouTube-8M.

    Raises:
      UsageError: the lists differ in length, a name is repeated, a size is not positive, or a range is not ascending.
    """
    if not names or len(names) != len(sizes):
        raise UsageError(
            f"--feature_names has {len(names)} entries ({','.join(names)}) and --feature_sizes {len(sizes)} "
            f"({','.join(map(str, sizes))}); give one size for each name, in the same order."
        )
    if len(set(names)) != len(names):
        raise UsageError(f"--feature_names={','.join(names)}: a name is given twice; name each feature once.")
    if min(sizes) < 1:
        raise UsageError(f"--feature_sizes={','.join(map(str, sizes))}: each size must be at least 1.")
    fit = all(not bounds or (len(bounds) == 2 and bounds[0] < bounds[1]) for bounds in ranges)
    if ranges and not (fit and len(ranges) == len(names)):
        raise UsageError(
            f"feature_ranges is {ranges}; expected two ascending numbers, or none, for each of the features "
            f"{','.join(names)}."
        )


def known_sizes(names: tuple[str, ...]) -> tuple[int, ...]:
    """Returns the number of values of each of the named features, which must be features of YouTube-8M.

    Raises:
      UsageError: a feature is not one of YouTube-8M's, so --feature_sizes must be given.
    """
    for name in names:
        if name not in KNOWN_SIZES:
            raise UsageError(
                f"--feature_names={','.join(names)}: the size of {name} is not known; "
                "add --feature_sizes with one size for each name."
            )
    return tuple(KNOWN_SIZES[name] for name in names)


@dataclass(frozen=True)
class ModelConfig(Checked):
    """The names of the model and of the label loss, and {name: value} of the hyper-parameters of each."""

    model: str = option(
        "LogisticModel",
        "the model: one listed below, or package.module:Class",
        shapes="variables",
        is_common=True,
        is_compared=False,  # a comparison of runs shows the model in a column or line of its own
        is_code=True,
        is_published=True,
    )
    hyper_parameters: Mapping[str, Any] = field(default_factory=dict)
    label_loss: str = option(
        "CrossEntropyLoss",
        "loss on the labels, by name or package.module:Class",
        shapes="graph",
        is_common=True,
        is_code=True,
        is_published=True,
    )
    loss_hyper_parameters: Mapping[str, Any] = field(default_factory=dict)


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
        1,
        "number of towers: one for each GPU, at most as many as there are; without a GPU all run on the CPU",
        minimum=1,
        maximum=1024,
        is_common=True,
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
        "folder of the run; by default a new one under runs/", shapes="nothing", belongs_to="start", is_common=True
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
        "callbacks to add, by name or package.module:Class, separated by commas; -name removes a default callback",
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
    distillation: DistillConfig = field(default_factory=DistillConfig)
    augmentation: AugmentConfig = field(default_factory=AugmentConfig)
    validation: ValidationConfig = field(default_factory=ValidationConfig)
    storage: StorageConfig = field(default_factory=StorageConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_train_only()
        for name in () if self.data.frame_features else self.augmentation.needs_frames:
            raise UsageError(
                f"--{name}={getattr(self.augmentation, name)} needs frames: add --frame_features, "
                f"or leave out --{name}; --augment_noise works on videos too."
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

    def _check_train_only(self) -> None:
        if self.train_only and self.optimizer.optimizer not in _STAY_AT_ZERO_GRADIENT:
            raise UsageError(
                f"--train_only=new: {self.optimizer.optimizer} may change a weight whose gradient is 0; choose "
                f"{' or '.join(_STAY_AT_ZERO_GRADIENT)}."
            )
