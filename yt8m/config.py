"""Everything a run was asked for, as frozen dataclasses: made from flags once, saved as config.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class DataConfig:
    """What is read and how. Sizes are per feature name, in the same order."""

    data_pattern: str = ""
    feature_names: tuple[str, ...] = ("mean_rgb", "mean_audio")
    feature_sizes: tuple[int, ...] = (1024, 128)
    frame_features: bool = False
    segment_labels: bool = False
    segment_size: int = 5
    num_classes: int = 3862
    max_frames: int = 300
    batch_size: int = 1024  # examples per tower and step
    num_readers: int = 8
    num_epochs: int | None = 5
    shuffle_buffer: int | None = None  # examples; None: chosen by the level
    seed: int = 0
    exact_resume: bool = False


@dataclass(frozen=True)
class ModelConfig:
    """Which model and label loss, and the hyper-parameters that were set (defaults are the model's own)."""

    model: str = "LogisticModel"
    hyper_parameters: Mapping[str, Any] = field(default_factory=dict)
    label_loss: str = "CrossEntropyLoss"


@dataclass(frozen=True)
class OptimizerConfig:
    """How gradients become steps. The decay counts examples (all towers of a step)."""

    optimizer: str = "AdamOptimizer"
    base_learning_rate: float = 0.01
    learning_rate_decay: float = 0.95
    learning_rate_decay_examples: float = 4_000_000
    clip_gradient_norm: float = 1.0  # per variable; 0: no clipping
    regularization_penalty: float = 1.0
    combine_gradients: str = "mean"  # or "sum", as published
    moving_average_decay: float = 0.0  # 0: none


@dataclass(frozen=True)
class DeviceConfig:
    """Towers and precision."""

    num_gpu: int = 1
    precision: str = "float32"
    log_device_placement: bool = False


@dataclass(frozen=True)
class CheckpointConfig:
    """When a run is saved and what is kept."""

    save_checkpoint_steps: int | None = None
    save_checkpoint_minutes: float = 15.0
    keep_checkpoints: int = 5
    export_model_steps: int = 1000
    start_new_model: bool = False


@dataclass(frozen=True)
class TrainConfig:
    """A whole training run."""

    train_dir: str = ""
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)
    devices: DeviceConfig = field(default_factory=DeviceConfig)
    checkpoints: CheckpointConfig = field(default_factory=CheckpointConfig)
    callbacks: tuple[str, ...] = ()
    max_steps: int | None = None
    log_every_n_steps: int = 10
    save_summary_steps: int = 100
    seed: int = 0
