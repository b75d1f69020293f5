"""Which flags each program has: derived from the fields of its config, of the models and of the losses."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from yt8m import config, losses, models, options
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
        *of(config.StorageConfig, "Buckets"),
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
    return [*of(config.EvalConfig, "Evaluation"), *of(config.StorageConfig, "Buckets")]


def inference() -> list[Flag]:
    """The flags of inference.py, without the models' own."""
    return [*of(config.InferenceConfig, "Inference"), *of(config.StorageConfig, "Buckets")]


def hyper_parameters(
    taken: Iterable[Flag], model: str = "", loss: str = "", *, of_losses: bool = True
) -> list[Flag]:
    """The hyper-parameters of all models and losses as flags; one flag where several share a name.

    Args:
      taken: other flags, whose names are not given twice.
      model, loss: those asked for. Their types win, and where one is a `package.module:Class` of the
        user's own it brings its flags along.
      of_losses: False for a program that has no loss.
    """
    names, made = {flag.name for flag in taken}, []
    kinds = [("models", models, model), ("losses", losses, loss)]
    for kind, catalogue, chosen in kinds if of_losses else kinds[:1]:
        for name, found in owners(catalogue, chosen).items():
            if name not in names:
                names.add(name)
                group = f"Hyper-parameters of the {kind}"
                made.append(Flag(name, _plain(found[0][1].type), None, _shared_help(found), group))
    return made


def owners(catalogue: Any, chosen: str = "") -> dict[str, list[tuple[str, options.Option]]]:
    """{hyper-parameter: [(class, its declaration), ...]} of `models` or `losses`, the chosen one first."""
    found: dict[str, list[tuple[str, options.Option]]] = {}
    for owner in dict.fromkeys([*_loadable(catalogue, chosen), *catalogue.names()]):
        for name, option in catalogue.hyper_parameters(catalogue.get(owner)).items():
            found.setdefault(name, []).append((owner, option))
    return found


def _loadable(catalogue: Any, chosen: str) -> Sequence[str]:
    """The class where it can be found; what is wrong with its name is said once all flags are read."""
    try:
        return [chosen] if chosen and isinstance(catalogue.get(chosen), type) else []
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
