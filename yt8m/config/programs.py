"""What is done about damaged input; training, evaluation and inference have the same options for it.

What a cache of parsed videos is for, and what it cannot do.

Everything a run was asked for, as frozen dataclasses; the flags are derived from these fields.

A field's default, help and bounds stand here once. Each class refuses values out of bounds with a
`UsageError` when it is made, whether from flags, from config.json or by hand.

What `yt8m export` and `yt8m average-checkpoints` are asked for; fields are flags.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from yt8m import options
from yt8m.config.parts import STALL_HELP, STALL_TIMEOUT
from yt8m.config.parts import AugmentConfig as AugmentConfig
from yt8m.config.parts import DistillConfig as DistillConfig
from yt8m.config.parts import DistributedConfig as DistributedConfig
from yt8m.config.parts import OptimizerConfig as OptimizerConfig
from yt8m.config.parts import StorageConfig as StorageConfig
from yt8m.config.registry import TRUST_HELP
from yt8m.errors import UsageError
from yt8m.options import option

MANIFEST_HELP = "file of how many records each shard holds (yt8m verify); manifest.json beside the shards"
BAD_HELP = "bad records that are tolerated; the rest of the shard of each is skipped, and told at the end"
NAN_HELP = "features that are NaN, infinite or beyond 1e16: an error, or set to 0 and counted"
NAN_POLICIES = ("refuse", "zero")
CALLBACKS_HELP = (
    "callbacks besides the usual ones, by name or package.module:Class, commas between; -name takes one away"
)


CACHE_HELP = "local folder that keeps videos as they were parsed, for every later pass over them"


def check_cache(data: Any) -> None:
    """Refuses, where there is to be a cache, what does not go with it.

    Args:
      data: a DataConfig.
    """
    if not data.cache:
        return
    given = f"--cache={data.cache}"
    if data.frame_features:
        raise UsageError(
            f"{given} keeps videos, and --frame_features reads frames, which are bytes before and "
            "after parsing: nothing would be saved. Leave out one of the two."
        )
    if data.reader:
        raise UsageError(
            f"{given} cannot tell when the code of --reader={data.reader} changes, and would keep what the old "
            "code parsed. Leave out one of the two."
        )
    for path, what in ((data.cache, "a local folder"), (data.data_pattern, "local shards")):
        if "gs://" in path:
            raise UsageError(f"{given} needs {what}, and {path} is in a bucket; copy it here, or leave it out.")
    if data.max_bad_records or data.nan_policy != "refuse":
        raise UsageError(
            f"{given} parses a record once, and so cannot tell in each pass what --max_bad_records leaves "
            "out and --nan_policy=zero sets to 0. Leave out one of the two."
        )


MOST_CLASSES = 10_000_000  # 40 MB of predictions for one video

# What the published records hold, and how wide it is.
KNOWN_SIZES = {"mean_rgb": 1024, "mean_audio": 128, "rgb": 1024, "audio": 128}

NO_POSITION = (
    "--exact_resume saves how far the input has read, and with --prefetch_to_device that is one batch "
    "further than what was trained on: a resumed run would leave that batch out. Leave out one of the two."
)


class _Checked:
    """Checks the fields against their declared types and bounds."""

    def __post_init__(self) -> None:
        options.check(self)


@dataclass(frozen=True)
class DataConfig(_Checked):
    """What is read and how. Sizes are per feature name, in the same order."""

    data_pattern: str = option("", "TFRecord files: a glob, or several with commas between, local or gs://")
    feature_names: tuple[str, ...] = option(("mean_rgb", "mean_audio"), "features to read, commas between")
    feature_sizes: tuple[int, ...] = option((1024, 128), "length of each feature, in the same order")
    frame_features: bool = option(False, "the records hold one feature vector a frame, not one a video")
    segment_labels: bool = option(False, "learn from the rated 5-second segments of frame records")
    segment_size: int = option(5, "frames of a segment", minimum=1)
    num_classes: int = option(3862, "number of classes", minimum=1, maximum=MOST_CLASSES)
    max_frames: int = option(300, "frames of a video that are read, from its start", minimum=1)
    batch_size: int = option(1024, "examples per tower and step", minimum=1)
    num_readers: int = option(8, "files that are read side by side", minimum=1)
    parse_threads: int | None = option(None, "batches parsed side by side [by the cores]", minimum=1)
    prefetch: int | None = option(None, "batches made ahead of the steps [by the cores]", minimum=1)
    num_epochs: int | None = option(5, "passes over the data", minimum=1)
    shuffle_buffer: int | None = option(None, "examples that are shuffled among each other", minimum=1)
    seed: int = option(0, "seed of the order of examples", minimum=0, maximum=2**31 - 1)
    exact_resume: bool = option(False, "save the position in the data too, so that a resumed run misses nothing")
    prefetch_to_device: bool = option(
        False, "copy the next step's batch to the towers' devices while the present step computes"
    )
    cache: str = option("", CACHE_HELP)
    manifest: str = option("", MANIFEST_HELP)
    max_bad_records: int = option(0, BAD_HELP, minimum=0)
    nan_policy: str = option("refuse", NAN_HELP, choices=NAN_POLICIES)
    reader: str = option("", "reader of your own for records of another layout, as package.module:Class [YouTube-8M's]")

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_features(self.feature_names, self.feature_sizes)
        if self.segment_labels and not self.frame_features:
            raise UsageError(
                "--segment_labels needs --frame_features: segments are parts of frame records. Give both, or neither."
            )
        if self.prefetch_to_device and self.exact_resume:
            raise UsageError(NO_POSITION)


@dataclass(frozen=True)
class ModelConfig(_Checked):
    """Which model and label loss, and the hyper-parameters of both by name."""

    model: str = option("LogisticModel", "the model: one of those listed below, or package.module:Class")
    hyper_parameters: Mapping[str, Any] = field(default_factory=dict)
    label_loss: str = option("CrossEntropyLoss", "the loss on the labels, by name or as package.module:Class")
    loss_hyper_parameters: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class DeviceConfig(_Checked):
    """Towers, and how they compute."""

    num_gpu: int = option(1, "towers: one on each GPU, or on the CPU where there is none", minimum=1)
    precision: str = option("float32", "what the towers compute in", choices=("float32", "bfloat16", "float16"))
    sync_batch_norm: bool = option(
        False, "take the statistics of batch norm over all towers of this process, so that N towers learn as one"
    )
    xla: bool = option(False, "compile the step with XLA; fuses what is not a product, mostly of use on GPUs")
    log_device_placement: bool = option(False, "log which device each op runs on")
    profile: tuple[int, ...] = option((), "FIRST,LAST steps whose trace TensorBoard's profiler shows")

    def __post_init__(self) -> None:
        super().__post_init__()
        ordered = len(self.profile) == 2 and 1 <= self.profile[0] <= self.profile[1]
        if self.profile and not ordered:
            raise UsageError(
                f"--profile={','.join(map(str, self.profile))}: give the first and the last step of the "
                "trace, such as --profile=100,105; the first step of a run is 1."
            )


@dataclass(frozen=True)
class CheckpointConfig(_Checked):
    """When a run is saved and what is kept."""

    save_checkpoint_steps: int | None = option(None, "steps between checkpoints, beside the minutes", minimum=1)
    save_checkpoint_minutes: float = option(15.0, "minutes between checkpoints", minimum=0.001)
    keep_checkpoints: int = option(5, "newest checkpoints kept, beside one a quarter of an hour", minimum=1)
    export_model_steps: int = option(1000, "steps between exported models", minimum=1)
    start_new_model: bool = option(False, "move what a former run left in train_dir aside and start afresh")


@dataclass(frozen=True)
class TrainConfig(_Checked):
    """A whole training run."""

    train_dir: str = option("", "folder of the run; a new one under runs/ where none is given")
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    devices: DeviceConfig = field(default_factory=DeviceConfig)
    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)
    callbacks: tuple[str, ...] = option((), CALLBACKS_HELP)
    max_steps: int | None = option(None, "last step of the run, steps of earlier starts included", minimum=1)
    log_every_n_steps: int = option(10, "steps between two lines in the log", minimum=1)
    save_summary_steps: int = option(100, "steps between summaries for TensorBoard", minimum=1)
    seed: int = option(0, "seed of weights, sampling and the order of examples", minimum=0, maximum=2**31 - 1)
    init_from: str = option("", "folder of a run whose weights this one begins with, by variable name")
    export_dir: str = option("", "folder that gets the trained model as a SavedModel, once training is done")
    log_dir: str = option("", "folder of the event files for TensorBoard; the run's own")
    distillation: DistillConfig = field(default_factory=DistillConfig)
    augmentation: AugmentConfig = field(default_factory=AugmentConfig)
    distributed: DistributedConfig = field(default_factory=DistributedConfig)
    storage: StorageConfig = field(default_factory=StorageConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in () if self.data.frame_features else self.augmentation.needs_frames:
            raise UsageError(
                f"--{name}={getattr(self.augmentation, name)} needs frames: add --frame_features, "
                "or leave it out; --augment_noise works on videos too."
            )
        if self.distillation.distill_from and self.data.segment_labels:
            raise UsageError(
                "--distill_from looks predictions up by video, but --segment_labels learns from segments; "
                "use --teacher with a model of frames."
            )
        check_cache(self.data)


@dataclass(frozen=True)
class EvalConfig(_Checked):
    """One evaluation, or one after each new checkpoint. The model is the one that the run saved."""

    train_dir: str = option("", "folder of the run; the newest under runs/ where none is given")
    eval_data_pattern: str = option("", DataConfig.__dataclass_fields__["data_pattern"].metadata["help"])
    segment_labels: bool = option(False, "evaluate on the rated segments of frame records")
    num_classes: int | None = option(
        None, "number of classes, where the run does not say", minimum=1, maximum=MOST_CLASSES
    )
    max_frames: int | None = option(None, "frames of a video that are read; as in training", minimum=1)
    batch_size: int = option(1024, "examples per tower and step", minimum=1)
    num_readers: int = option(8, "files that are read side by side", minimum=1)
    num_gpu: int = option(1, "towers: one on each GPU, or on the CPU where there is none", minimum=1)
    run_once: bool = option(False, "evaluate the newest checkpoint and end, rather than wait for the next")
    top_k: int = option(20, "best predictions of each video that count", minimum=1)
    keep_best: bool = option(False, "keep a copy of the checkpoint with the best GAP")
    report: bool = option(False, "write eval/report.html too, a page of figures and pictures")
    metrics: tuple[str, ...] = option(
        (), "metrics of your own besides the usual ones: package.module:Class, commas between"
    )
    callbacks: tuple[str, ...] = option((), CALLBACKS_HELP)
    log_every_n_steps: int = option(10, "steps between two lines in the log", minimum=1)
    manifest: str = option("", MANIFEST_HELP)
    max_bad_records: int = option(0, BAD_HELP, minimum=0)
    nan_policy: str = option("refuse", NAN_HELP, choices=NAN_POLICIES)
    stall_timeout: float = option(STALL_TIMEOUT, STALL_HELP, minimum=1.0)
    trust_code: bool = option(False, TRUST_HELP)
    hyper_parameters: Mapping[str, Any] = field(default_factory=dict)
    storage: StorageConfig = field(default_factory=StorageConfig)


@dataclass(frozen=True)
class InferenceConfig(_Checked):
    """Predictions for files, by a run or by a model packed into a .tgz."""

    train_dir: str = option("", "folder of the run; the newest under runs/ where none is given")
    input_data_pattern: str = option("", DataConfig.__dataclass_fields__["data_pattern"].metadata["help"])
    output_file: str = option(
        "", "where the predictions go (CSV); predictions.csv in the run's folder where none is named"
    )
    output_model_tgz: str = option("", "pack the model into this .tgz too")
    input_model_tgz: str = option("", "predict by the model in this .tgz rather than by a run")
    untar_model_dir: str = option(
        "", "folder that input_model_tgz is unpacked into; a private one, removed at the end, if none is given"
    )
    segment_labels: bool = option(False, "predict for each 5-second segment of frame records")
    segment_max_pred: int = option(100_000, "segments listed per class at most", minimum=1)
    segment_label_ids_file: str = option("", "CSV of the classes that segments may have; the published 1000")
    segment_context: int = option(
        0, "frames before and behind each segment that the model sees too", minimum=0, maximum=10_000
    )
    candidates_from: str = option(
        "", "CSV of predictions for the videos: their segments are listed for these classes only"
    )
    num_classes: int | None = option(
        None, "number of classes, where the model does not say", minimum=1, maximum=MOST_CLASSES
    )
    max_frames: int | None = option(None, "frames of a video that are read; as in training", minimum=1)
    top_k: int = option(20, "predictions listed per video; at most one a class", minimum=1)
    batch_size: int = option(512, "examples per step", minimum=1)
    num_readers: int = option(1, "files that are read side by side", minimum=1)
    callbacks: tuple[str, ...] = option((), CALLBACKS_HELP)
    log_every_n_steps: int = option(10, "steps between two lines in the log", minimum=1)
    manifest: str = option("", MANIFEST_HELP)
    max_bad_records: int = option(0, BAD_HELP, minimum=0)
    nan_policy: str = option("refuse", NAN_HELP, choices=NAN_POLICIES)
    stall_timeout: float = option(STALL_TIMEOUT, STALL_HELP, minimum=1.0)
    trust_code: bool = option(False, TRUST_HELP)
    hyper_parameters: Mapping[str, Any] = field(default_factory=dict)
    storage: StorageConfig = field(default_factory=StorageConfig)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.train_dir and self.input_model_tgz:
            raise UsageError("--train_dir and --input_model_tgz both name a model; give one of them.")
        for name in ("segment_context", "candidates_from", "segment_label_ids_file"):
            if getattr(self, name) and not self.segment_labels:
                raise UsageError(f"--{name} is for segments: add --segment_labels, or leave it out.")


def _check_features(names: tuple[str, ...], sizes: tuple[int, ...]) -> None:
    if not names or len(names) != len(sizes):
        raise UsageError(
            f"--feature_names has {len(names)} entries ({','.join(names)}) and --feature_sizes {len(sizes)} "
            f"({','.join(map(str, sizes))}); give one size for each name, in the same order."
        )
    if len(set(names)) != len(names):
        raise UsageError(f"--feature_names={','.join(names)}: a name stands twice; name each feature once.")
    if min(sizes) < 1:
        raise UsageError(f"--feature_sizes={','.join(map(str, sizes))}: each size must be at least 1.")


@dataclass(frozen=True)
class ExportConfig:
    """A model out of a run's checkpoint."""

    train_dir: str = option("", "folder of the run; the newest under runs/ where none is given")
    run: str = option("", "the same as --train_dir")
    checkpoint: str = option("last", "which one: last, best (kept by eval.py --keep_best), or its step")
    weights: str = option("float32", "how weights are stored", choices=("float32", "float16", "int8"))
    signature: str = option(
        "records",
        "which input serving_default takes: serialized records, or features as MediaPipe's graph gives them; "
        "the other goes by its own name",
        choices=("records", "mediapipe"),
    )
    out: str = option("", "folder to write, which must not be there yet")
    eval_data_pattern: str = option(
        "", "records with labels: GAP is taken on them before and after, and put into the model card"
    )
    batch_size: int = option(1024, "examples per step of those evaluations", minimum=1)
    num_readers: int = option(8, "files that they read side by side", minimum=1)
    top_k: int = option(20, "best predictions of each video that count and that the model gives", minimum=1)
    trust_code: bool = option(False, TRUST_HELP)

    def __post_init__(self) -> None:
        options.check(self)
        if not self.out:
            raise UsageError("--out is missing: name the folder to write the model into.")
        if self.train_dir and self.run:
            raise UsageError("--train_dir and --run both name the run; give one of them.")
        if self.checkpoint not in ("last", "best") and not self.checkpoint.isdigit():
            raise UsageError(f"--checkpoint={self.checkpoint}: expected last, best, or a step such as 1000.")


@dataclass(frozen=True)
class AverageConfig:
    """The mean of several checkpoints of one run."""

    train_dir: str = option("", "folder of the run; the newest under runs/ where none is given")
    last: int | None = option(None, "how many of the newest checkpoints are averaged [5]", minimum=2)
    checkpoints: tuple[str, ...] = option((), "which ones, by step, in place of the newest")
    out: str = option("", "folder to write, which must not be there yet; eval.py takes it as a run")
    trust_code: bool = option(False, TRUST_HELP)

    def __post_init__(self) -> None:
        options.check(self)
        if not self.out:
            raise UsageError("--out is missing: name the folder to write the averaged checkpoint into.")
        if self.last is not None and self.checkpoints:
            raise UsageError("--last and --checkpoints both choose checkpoints; give one of them.")
        if self.checkpoints and not (len(set(self.checkpoints)) == len(self.checkpoints) > 1):
            given = ",".join(self.checkpoints)
            raise UsageError(f"--checkpoints={given}: name at least two different steps.")
        for step in self.checkpoints:
            if not step.isdigit():
                raise UsageError(f"--checkpoints: {step!r} is no step; write them as 1000,2000,3000.")
