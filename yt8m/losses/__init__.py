"""Label losses, which map predictions (or logits) and labels to a scalar; `losses.names()` lists them."""

from yt8m.losses.base import (
    BaseLoss,
    built_in_names,
    create,
    get,
    hyper_parameters,
    is_of_pairs,
    is_plug_in,
    names,
    names_and_packages,
    of_batch,
    register,
)

__all__ = ["BaseLoss", "built_in_names", "create", "get", "hyper_parameters", "is_of_pairs", "is_plug_in", "names"]
__all__ += ["names_and_packages", "of_batch", "register"]
