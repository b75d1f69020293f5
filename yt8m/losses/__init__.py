"""Label losses: functions of predictions (or logits) and labels to a scalar. `losses.names()` lists them."""

from yt8m.losses import label_losses  # noqa: F401 - it registers its losses
from yt8m.losses.base import (
    BaseLoss,
    create,
    get,
    gradient_of_logits,
    hyper_parameters,
    is_of_pairs,
    loss_of_logits,
    loss_of_pairs,
    loss_of_predictions,
    names,
    register,
)

__all__ = [
    "BaseLoss",
    "create",
    "get",
    "gradient_of_logits",
    "hyper_parameters",
    "is_of_pairs",
    "loss_of_logits",
    "loss_of_pairs",
    "loss_of_predictions",
    "names",
    "register",
]
