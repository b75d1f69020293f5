"""Models that also see the mean of the whole video, of which a segment may be only a part.

A segment model sees five seconds. The first and the seventh entry of the 2019 challenge gave their models the context
of the whole video too. Here any frame-level model gets it: as further features of each frame.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar

from yt8m.lazy import tf
from yt8m.models import frames
from yt8m.types import ModelOutput


class _SeesFilm:
    """Comes before the class of a model, and widens its input."""

    takes_mean: ClassVar[bool] = False

    def create_model(
        self, model_input: tf.Tensor, *, num_frames: tf.Tensor | None = None, **others: Any
    ) -> ModelOutput:
        """The model on frames [B, T, 2 D] made of `model_input` [B, T, D] and of the means of the videos."""
        model: Any = super()
        wide = frames.beside_film(model_input, num_frames)
        return model.create_model(wide, num_frames=num_frames, **others)  # type: ignore[no-any-return]


def with_film(model: Any) -> Any:
    """A copy of `model` that sees, beside each frame, the mean of the video (`frames.film_scope`)."""
    cls = type(model)
    seeing = copy.copy(model)
    object.__setattr__(seeing, "__class__", type(cls.__name__, (_SeesFilm, cls), {"__module__": cls.__module__}))
    return seeing
