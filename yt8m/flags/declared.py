"""Which flags each program has: derived from the fields of its config and of the models."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from yt8m import config, models, options
from yt8m.errors import UsageError


class Flag(NamedTuple):
    """One flag.

    Attributes:
      name: without dashes.
      kind: bool, int, float, str, or tuple[str, ...] and tuple[int, ...] for lists with commas.
      default: what holds where it is not given; None for a default that depends on others.
      help: one line.
      group: the heading it stands under in `--help`.
    """

    name: str
    kind: Any
    default: Any
    help: str
    group: str


def train() -> list[Flag]:
    """The flags of train.py, without the models' own."""
    return [
        *of(config.TrainConfig, "Run"),
        *map(_data_flag, of(config.DataConfig, "Data", leave_out=("segment_size", "seed"))),
        *of(config.ModelConfig, "Model"),
        *of(config.OptimizerConfig, "Optimizer"),
        *of(config.DistillConfig, "Distillation"),
        *of(config.AugmentConfig, "Augmentation"),
        *of(config.DeviceConfig, "Devices"),
        *of(config.CheckpointConfig, "Checkpoints"),
        *of(config.DistributedConfig, "Cluster"),
    ]


def _data_flag(flag: Flag) -> Flag:
    """Where the command line differs from the field: a name, and defaults that depend on other flags."""
    if flag.name == "data_pattern":
        return flag._replace(name="train_data_pattern", help=f"{flag.help} [sample data]")
    if flag.name == "feature_names":
        return flag._replace(default=None, help=f"{flag.help} [mean_rgb; rgb with --frame_features]")
    if flag.name == "feature_sizes":
        return flag._replace(default=None, help=f"{flag.help} [1024 for rgb, 128 for audio]")
    return flag


def evaluation() -> list[Flag]:
    """The flags of eval.py, without the models' own."""
    return of(config.EvalConfig, "Evaluation")


def inference() -> list[Flag]:
    """The flags of inference.py, without the models' own."""
    return of(config.InferenceConfig, "Inference")


def hyper_parameters(taken: Iterable[Flag], chosen: str = "") -> list[Flag]:
    """The hyper-parameters of all models as flags; one flag where several models share a name.

    Args:
      taken: other flags, whose names are not given twice.
      chosen: the model asked for. Its types win, and where it is a `package.module:Class` of the
        user's own it brings its flags along.
    """
    names, owners = {flag.name for flag in taken}, owners_of_hyper_parameters(chosen)
    return [
        Flag(name, _plain(found[0][1].type), None, _shared_help(found), "Hyper-parameters of the models")
        for name, found in owners.items()
        if name not in names
    ]


def owners_of_hyper_parameters(chosen: str = "") -> dict[str, list[tuple[str, options.Option]]]:
    """{hyper-parameter: [(model, its declaration), ...]}, the chosen model first."""
    owners: dict[str, list[tuple[str, options.Option]]] = {}
    for model in dict.fromkeys([*_loadable(chosen), *models.names()]):
        for name, option in models.hyper_parameters(models.get(model)).items():
            owners.setdefault(name, []).append((model, option))
    return owners


def _loadable(model: str) -> Sequence[str]:
    """The model where it can be found; what is wrong with its name is said once all flags are read."""
    try:
        return [model] if model and isinstance(models.get(model), type) else []
    except UsageError:
        return []


def of(cls: type, group: str, leave_out: Sequence[str] = ()) -> list[Flag]:
    """Flags of the declared fields of one config class."""
    declared = {field.name for field in dataclasses.fields(cls) if "help" in field.metadata}
    return [
        Flag(name, _plain(option.type), option.default, option.help + _choices(cls, name), group)
        for name, option in options.declared(cls).items()
        if name in declared and name not in leave_out
    ]


def _plain(kind: Any) -> Any:
    """The type without its `| None`."""
    members = [member for member in typing.get_args(kind) if member is not type(None)]
    return members[0] if type(None) in typing.get_args(kind) else kind


def _choices(cls: type, name: str) -> str:
    choices = cls.__dataclass_fields__[name].metadata["choices"]  # type: ignore[attr-defined]
    return f" ({' or '.join(choices)})" if choices else ""


def _shared_help(found: Sequence[tuple[str, options.Option]]) -> str:
    defaults = ", ".join(f"{model}: {shown(option.default)}" for model, option in found)
    return f"{found[0][1].help} ({defaults})"


def shown(value: Any) -> str:
    """A value as it is written on the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)
