"""The hyper-parameters of model and loss: given, saved or default values."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from yt8m import losses, models
from yt8m.config.search_config import TRANSFORM, USUAL_TRANSFORM
from yt8m.config.train_config import ModelConfig
from yt8m.errors import UsageError
from yt8m.options import about_flags
from yt8m.registry import owners, refuse_two_meanings


def with_hyper_parameters(model: ModelConfig, flags: Mapping[str, Any]) -> ModelConfig:
    """Completes the hyper-parameters of model and loss.

    The value of a hyper-parameter comes from `flags`, else from `model`, else it is the default. A model with a
    video-level classifier also takes the hyper-parameters of that classifier.

    Args:
      flags: {hyper-parameter: value} of those that the user gave.
    """
    refuse_two_meanings({model.model: models.get(model.model), model.label_loss: losses.get(model.label_loss)})
    model_fields = models.hyper_parameters(models.get(model.model))
    loss_values = _select_for_loss(model, flags, model_fields)
    model_values = {name: value for name, value in flags.items() if name not in loss_values or name in model_fields}
    return dataclasses.replace(
        model,
        hyper_parameters=_fill_hyper_parameters("model", models, model.model, model.hyper_parameters, model_values),
        loss_hyper_parameters=_fill_hyper_parameters(
            "label_loss", losses, model.label_loss, model.loss_hyper_parameters, loss_values
        ),
    )


def _select_for_loss(model: ModelConfig, flags: Mapping[str, Any], model_fields: Collection[str]) -> dict[str, Any]:
    """Selects from `flags` the hyper-parameters of the chosen loss, and those that only other losses have.

    The caller gives all of them to the loss. A hyper-parameter that only other losses have is then refused, with a
    message that names these losses.
    """
    loss_fields = losses.hyper_parameters(losses.get(model.label_loss))
    # `owners` imports all models and losses, so it is called only if neither the model nor the loss has some flag.
    is_foreign = not flags.keys() <= {*loss_fields, *model_fields}
    only_of_losses = owners(losses).keys() - owners(models, model.model).keys() if is_foreign else ()
    return {name: value for name, value in flags.items() if name in loss_fields or name in only_of_losses}


def _fill_hyper_parameters(
    flag: str, catalogue: Any, name: str, saved: Mapping[str, Any], flags: Mapping[str, Any]
) -> Mapping[str, Any]:
    """{hyper-parameter: value} of a model or a loss; a value is from `flags`, else `saved`, else the default."""
    cls = catalogue.get(name)
    if not dataclasses.is_dataclass(cls):  # a class of the user, without declared hyper-parameters
        _refuse_foreign(flag, catalogue, name, flags)
        return saved
    # A model with a video-level classifier moves the classifier's hyper-parameters into a mapping of its own.
    arranged = cls.arrange(flags) if hasattr(cls, "arrange") else flags
    foreign = {n: v for n, v in flags.items() if n in arranged.keys() - _field_names(cls)}
    _refuse_foreign(flag, catalogue, name, foreign)
    with about_flags():
        instance = catalogue.create(name, {**saved, **flags})
    names = _field_names(cls)
    # The usual transform is not saved, since runs of before the option lack it, and so do their graphs.
    if getattr(instance, TRANSFORM, "") == USUAL_TRANSFORM == getattr(cls, TRANSFORM, ""):
        names = [name for name in names if name != TRANSFORM]
    return {name: getattr(instance, name) for name in names}


def _field_names(cls: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(cls) if field.init]


def _refuse_foreign(flag: str, catalogue: Any, class_name: str, foreign: Mapping[str, Any]) -> None:
    """Raises `UsageError` for a hyper-parameter that a class lacks; the message names the classes that have it.

    Args:
      foreign: {hyper-parameter: value} of those that the class lacks; if it is empty, nothing is raised.
    """
    for name, value in foreign.items():
        owning_classes = [owner for owner, _ in owners(catalogue, class_name).get(name, [])]
        others = f"only {', '.join(owning_classes)} has" if owning_classes else f"no {flag.replace('_', ' ')} has"
        raise UsageError(
            f"--{name}={value}: {class_name} has no such hyper-parameter; {others}. "
            f"Leave the flag out or choose another --{flag}."
        )
