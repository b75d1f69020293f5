"""What models with batch normalisation have in common."""

from __future__ import annotations

from dataclasses import dataclass

from yt8m.models.base import BaseModel
from yt8m.models.layers import BATCH_NORM_DECAY, Net
from yt8m.options import option


@dataclass(frozen=True)
class NormalisedModel(BaseModel):
    """A model whose moving averages can be made to follow a run of some hundred steps.

    They start at mean 0 and variance 1. With the published decay, 0.999, that start still weighs 0.999^n
    after n steps, and a variance of 1 is a thousand times that of scores of length-normalised frames: what
    evaluation reads makes sense after some ten thousand steps, in shorter runs only with a smaller decay.
    """

    batch_norm_decay: float = option(
        BATCH_NORM_DECAY,
        "decay of the moving averages of batch normalisation; 0.9 to 0.99 for short runs",
        minimum=0,
        maximum=0.999999,
    )

    def new_net(self, is_training: bool) -> Net:
        """With that decay."""
        return Net(is_training, self.batch_norm_decay)
