"""Checks of the names on a command line, and of whether a model can take the features of the data."""

from __future__ import annotations

from yt8m import losses, models, storage
from yt8m.config import run_dir
from yt8m.config.data_config import KNOWN_SIZES, DataConfig
from yt8m.config.train_config import ModelConfig, OptimizerConfig
from yt8m.errors import UsageError
from yt8m.graph.optimizers import check_optimizer
from yt8m.options import about_flags


def check_names(model: ModelConfig, optimizer: OptimizerConfig) -> None:
    """Raises `UsageError`, with the name of the flag, for an unknown model, loss or optimizer."""
    _refuse_run(model.model)
    for flag, get, name, method in (
        ("model", models.get, model.model, "create_model"),
        ("label_loss", losses.get, model.label_loss, "calculate_loss"),
    ):
        with about_flags(f"--{flag}={name}: "):
            cls = get(name)
        if not (isinstance(cls, type) and callable(getattr(cls, method, None))):
            raise UsageError(f"--{flag}={name}: expected a class with a method {method}; found {cls!r}.")
    with about_flags(f"--optimizer={optimizer.optimizer}: "):
        check_optimizer(optimizer.optimizer, optimizer.weight_decay)


def _refuse_run(name: str) -> None:
    """Refuses a run in place of the name of a model: other commands call the run --model."""
    # The names come last, since all modules of models are imported for them.
    if (storage.is_dir(name) or run_dir.is_run(name)) and name not in models.names():
        raise UsageError(
            f"--model={name} is a folder, and here it takes the name of a model: --config={name} trains as that run "
            f"was trained. In yt8m train, --train_dir={name} goes on with it, --init_from={name} starts another run "
            f"from its weights, and --teacher={name} learns from it."
        )


def check_level(model: str, frame_features: bool, is_of_data: bool = False) -> None:
    """Raises `UsageError` for a video-level model on frames, and for a frame-level model on video-level records.

    A model without an attribute `level` is accepted.
    """
    level, problem = getattr(models.get(model), "level", None), ""
    if level == "video" and frame_features:
        problem = "takes one vector per video, but --frame_features is given. Leave that out"
        if is_of_data:
            problem = "takes one vector per video, but the data hold frames. Name data of videos"
    elif level == "frame" and not frame_features:
        problem = "takes frames: add --frame_features (with frame records)"
        if is_of_data:
            problem = "takes frames, but the data hold one vector per video. Name frame records"
    if problem:
        data_level = "frame" if frame_features else "video"
        fitting_models = ", ".join(name for name in models.built_in_names() if models.get(name).level == data_level)
        raise UsageError(f"--model={model} {problem}, or choose a {data_level}-level model: {fitting_models}.")


def check_model_takes(data: DataConfig, model: ModelConfig, level_is_of_data: bool = False) -> None:
    """Raises `UsageError` if the model cannot take features of this level and these sizes."""
    cls, sizes = models.get(model.model), data.feature_sizes
    check_level(model.model, data.frame_features, level_is_of_data)
    transform = model.hyper_parameters.get("input_transform", getattr(cls, "input_transform", ""))
    if transform == "reverse_whitening" and KNOWN_SIZES["rgb"] not in sizes:
        raise UsageError(
            f"--model={model.model} reverses the whitening of the {KNOWN_SIZES['rgb']} rgb features, but "
            f"--feature_sizes is {','.join(map(str, sizes))}; add rgb to --feature_names, give "
            "--input_transform=l2_normalize, or choose another --model."
        )
    if "feature_sizes" in models.hyper_parameters(cls):
        with about_flags():
            models.create(model.model, {**model.hyper_parameters, "feature_sizes": sizes})
