"""Completes the hyper-parameters of a user and checks them against model and loss; finds the files of a flag."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from yt8m import losses, models
from yt8m.config.train_config import ModelConfig
from yt8m.errors import UsageError
from yt8m.options import about_flags
from yt8m.records import manifest
from yt8m.registry import owners, refuse_two_meanings


def check_files(flag: str, pattern: str) -> list[str]:
    """The files that match the pattern in a flag; none for an empty pattern, which stands for the sample data.

    Raises:
      UsageError: no file matches.
    """
    with about_flags(f"--{flag}={pattern}: "):
        return manifest.shards_at(pattern) if pattern else []


def with_hyper_parameters(model: ModelConfig, flags: Mapping[str, Any]) -> ModelConfig:
    """`model` with all hyper-parameters of model and loss: `flags`, then those in `model`, then defaults.

    Hyper-parameters that the model does not have are those of its video-level classifier, if it has one.

    Raises:
      UsageError: neither model nor loss has a hyper-parameter in `flags`; a value is not allowed; or model and loss
        have different hyper-parameters of the same name.
    """
    refuse_two_meanings({model.model: models.get(model.model), model.label_loss: losses.get(model.label_loss)})
    model_fields = models.hyper_parameters(models.get(model.model))
    of_loss = _of_the_loss(model, flags, model_fields)
    of_model = {name: value for name, value in flags.items() if name not in of_loss or name in model_fields}
    return dataclasses.replace(
        model,
        hyper_parameters=_filled("model", models, model.model, model.hyper_parameters, of_model),
        loss_hyper_parameters=_filled("label_loss", losses, model.label_loss, model.loss_hyper_parameters, of_loss),
    )


def _of_the_loss(model: ModelConfig, flags: Mapping[str, Any], model_fields: Collection[str]) -> dict[str, Any]:
    """Those of `flags` that are hyper-parameters of the chosen loss, or of other losses and of no model."""
    loss_fields = losses.hyper_parameters(losses.get(model.label_loss))
    # `owners` imports all models and losses, so it is called only if a flag is neither the model's nor the loss's.
    is_foreign = not flags.keys() <= {*loss_fields, *model_fields}
    of_losses = owners(losses).keys() - owners(models, model.model).keys() if is_foreign else ()
    return {name: value for name, value in flags.items() if name in loss_fields or name in of_losses}


def _filled(
    flag: str, catalogue: Any, name: str, saved: Mapping[str, Any], flags: Mapping[str, Any]
) -> Mapping[str, Any]:
    """{hyper-parameter: value} of the class `name` in `catalogue`, from `flags`, else from `saved`, else the default.

    `flag` is the flag that names the class, for error messages.
    """
    cls = catalogue.get(name)
    if not dataclasses.is_dataclass(cls):  # a class of the user, without declared hyper-parameters
        _refuse_foreign(flag, catalogue, name, flags)
        return saved
    arranged = cls.arrange(flags) if hasattr(cls, "arrange") else flags
    foreign = {n: v for n, v in flags.items() if n in arranged.keys() - _fields(cls)}
    _refuse_foreign(flag, catalogue, name, foreign)
    with about_flags():
        made = catalogue.create(name, {**saved, **flags})
    return {field: getattr(made, field) for field in _fields(cls)}


def _fields(cls: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(cls) if field.init]


def _refuse_foreign(flag: str, catalogue: Any, chosen: str, foreign: Mapping[str, Any]) -> None:
    """Raises `UsageError` for hyper-parameters that the class lacks; the message names the classes that have them."""
    for name, value in foreign.items():
        having = [owner for owner, _ in owners(catalogue, chosen).get(name, [])]
        others = f"only {', '.join(having)} has" if having else f"no {flag.replace('_', ' ')} has"
        raise UsageError(
            f"--{name}={value}: {chosen} has no such hyper-parameter; {others}. "
            f"Leave the flag out or choose another --{flag}."
        )
