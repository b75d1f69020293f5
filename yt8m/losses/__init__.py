"""Label losses, which map predictions (or logits) and labels to a scalar; `losses.names()` lists them."""

from yt8m.losses.base import (
    BaseLoss,
    create,
    get,
    hyper_parameters,
    is_of_pairs,
    names,
    names_and_packages,
    of_batch,
    register,
)

__all__ = ["BaseLoss", "create", "get", "hyper_parameters", "is_of_pairs", "names", "names_and_packages"]
__all__ += ["of_batch", "register"]
