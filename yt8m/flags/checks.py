"""What flags must agree on with one another and with the models, losses, optimizers and files."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from yt8m import losses, models, storage
from yt8m.config import KNOWN_SIZES, DataConfig, ModelConfig
from yt8m.errors import UsageError, suggestion
from yt8m.flags.declared import owners
from yt8m.flags.optimizers import OPTIMIZERS


def as_flag(error: UsageError) -> str:
    """What a class says of its field, said of the flag that the user knows."""
    return re.sub(r"^\w+: (?=\w+ must )", "--", str(error))


def check_names(model: ModelConfig, optimizer: str) -> None:
    """Refuses a model, loss or optimizer that there is not, with the flag's name."""
    for flag, get, name, method in (
        ("model", models.get, model.model, "create_model"),
        ("label_loss", losses.get, model.label_loss, "calculate_loss"),
    ):
        try:
            found = get(name)
        except UsageError as error:
            raise UsageError(f"--{flag}={name}: {error}") from error
        if not (isinstance(found, type) and callable(getattr(found, method, None))):
            raise UsageError(f"--{flag}={name}: expected a class with a method {method}; found {found!r}.")
    if optimizer not in OPTIMIZERS:
        raise UsageError(
            f"--optimizer={optimizer}: unknown optimizer{suggestion(optimizer, OPTIMIZERS)} "
            f"(known: {', '.join(OPTIMIZERS)})"
        )


def check_level(model: str, frame_features: bool) -> None:
    """Refuses a video-level model on frames and the reverse; models that do not say are let through."""
    level = getattr(models.get(model), "level", None)
    if level == "video" and frame_features:
        raise UsageError(
            f"--model={model} takes one vector a video, but --frame_features is given. "
            f"Leave that out, or choose a frame-level model: {_of_level('frame')}."
        )
    if level == "frame" and not frame_features:
        raise UsageError(
            f"--model={model} takes frames: add --frame_features (with frame records), "
            f"or choose a video-level model: {_of_level('video')}."
        )


def check_files(flag: str, pattern: str) -> None:
    """Refuses a pattern that no file matches, or a folder; an empty one stands for the sample data."""
    if not pattern:
        return
    found = storage.glob(pattern)
    if not found:
        raise UsageError(f"--{flag}={pattern}: no file matches. Check the path, and quote the pattern.")
    # In a bucket only files are found, and each question would be a request.
    folder = next((path for path in found if not storage.is_remote(path) and storage.is_dir(path)), None)
    if folder is not None:
        raise UsageError(
            f"--{flag}={pattern}: {folder} is a folder; name the files in it: '{folder}/*.tfrecord'."
        )


def with_hyper_parameters(model: ModelConfig, given: Mapping[str, Any]) -> ModelConfig:
    """`model` with the given flags put over its hyper-parameters and its loss's, the rest at their defaults.

    What the model does not have goes to its video-level classifier, where it has one.

    Raises:
      UsageError: none of them has a flag that is given, or a value cannot be.
    """
    of_loss = _of_the_loss(model, given)
    own = models.hyper_parameters(models.get(model.model))
    of_model = {name: value for name, value in given.items() if name not in of_loss or name in own}
    return dataclasses.replace(
        model,
        hyper_parameters=_filled("model", models, model.model, model.hyper_parameters, of_model),
        loss_hyper_parameters=_filled(
            "label_loss", losses, model.label_loss, model.loss_hyper_parameters, of_loss
        ),
    )


def _of_the_loss(model: ModelConfig, given: Mapping[str, Any]) -> dict[str, Any]:
    """What the chosen loss has, or some loss and no model."""
    own = losses.hyper_parameters(losses.get(model.label_loss))
    of_losses = owners(losses).keys() - owners(models, model.model).keys()
    return {name: value for name, value in given.items() if name in own or name in of_losses}


def _filled(
    flag: str, catalogue: Any, name: str, saved: Mapping[str, Any], given: Mapping[str, Any]
) -> Mapping[str, Any]:
    """All hyper-parameters of the class `name` of `catalogue`, chosen by `flag`."""
    cls = catalogue.get(name)
    if not dataclasses.is_dataclass(cls):  # of the user's own, without declared hyper-parameters
        _refuse_foreign(flag, catalogue, name, given)
        return saved
    arranged = cls.arrange(given) if hasattr(cls, "arrange") else given
    foreign = {n: v for n, v in given.items() if n in arranged.keys() - _fields(cls)}
    _refuse_foreign(flag, catalogue, name, foreign)
    try:
        made = catalogue.create(name, {**saved, **given})
    except UsageError as error:
        raise UsageError(as_flag(error)) from error
    return {field: getattr(made, field) for field in _fields(cls)}


def check_features(data: DataConfig, model: ModelConfig) -> None:
    """Refuses a model that cannot take features of these kinds and sizes."""
    cls, sizes = models.get(model.model), data.feature_sizes
    check_level(model.model, data.frame_features)
    if getattr(cls, "input_transform", "") == "reverse_whitening" and KNOWN_SIZES["rgb"] not in sizes:
        raise UsageError(
            f"--model={model.model} undoes the whitening of the {KNOWN_SIZES['rgb']} rgb features, but "
            f"--feature_sizes is {','.join(map(str, sizes))}; add rgb to --feature_names, or choose another "
            "--model."
        )
    if "feature_sizes" in models.hyper_parameters(cls):
        try:
            models.create(model.model, {**model.hyper_parameters, "feature_sizes": sizes})
        except UsageError as error:
            raise UsageError(as_flag(error)) from error


def _fields(cls: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(cls) if field.init]


def _refuse_foreign(flag: str, catalogue: Any, chosen: str, foreign: Mapping[str, Any]) -> None:
    """Refuses hyper-parameters that the model or loss does not have, naming those that have them."""
    for name, value in foreign.items():
        having = [owner for owner, _ in owners(catalogue, chosen).get(name, [])]
        none = f"no {flag.replace('_', ' ')}"
        raise UsageError(
            f"--{name}={value}: {chosen} has no such hyper-parameter; {', '.join(having) or none} has. "
            f"Leave the flag out or choose another --{flag}."
        )


def _of_level(level: str) -> str:
    return ", ".join(name for name in models.names() if models.get(name).level == level)
