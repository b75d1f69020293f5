"""The forms in which extractors take a video: pictures, clips of several pictures, and windows of sound."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m.errors import UsageError

INTERPOLATIONS = ("bicubic", "bilinear", "area", "lanczos", "spline")


class Scaling(NamedTuple):
    """How a picture is scaled before an extractor gets it.

    Attributes:
      size: height and width in pixels of the square that the extractor takes; 0 keeps the picture's proportions.
      shorter_side: the picture is scaled until its shorter side has this length, and the square is cut out of its
        middle; 0 scales the whole picture to the square, which changes its proportions.
      interpolation: one of `INTERPOLATIONS`, which FFmpeg's swscale computes.
    """

    size: int
    shorter_side: int = 0
    interpolation: str = "bicubic"


class Pictures(NamedTuple):
    """One picture for each row, uint8 [N, H, W, 3]; `scaling` is None for pictures as large as the video's."""

    scaling: Scaling | None = None


class Clips(NamedTuple):
    """Clips of successive pictures, uint8 [N, frames, H, W, 3].

    Attributes:
      frames: pictures of a clip.
      rate: pictures a second.
      hop: seconds from the middle of a clip to that of the next one; the middle of clip 0 is at the start.
      scaling: see `Pictures`.
    """

    frames: int
    rate: float
    hop: float = 1.0
    scaling: Scaling | None = None

    def check(self) -> None:
        """Raises UsageError if there can be no such clips."""
        if self.frames < 1 or not 0 < self.rate <= 1000 or self.hop < 0.001:
            raise UsageError(
                f"clips of {self.frames} pictures at {self.rate:g} a second, every {self.hop:g} seconds: expected at "
                "least one picture, up to 1000 a second, and at least 0.001 seconds. An extractor of clips defines "
                "`frames` and `rate`."
            )


class Sound(NamedTuple):
    """A form of sound: samples per second; length of a window, and distance of the starts of windows, in samples."""

    rate: int
    window: int
    hop: int


Form = Pictures | Clips | Sound


def blank(form: Form) -> NDArray[Any]:
    """One black picture or clip, or one silent window, which shows how many values the feature has."""
    if isinstance(form, Sound):
        return np.zeros((1, form.window), np.float32)
    side = (form.scaling.size or form.scaling.shorter_side) if form.scaling else 64
    frames = (form.frames,) if isinstance(form, Clips) else ()
    return np.zeros((1, *frames, side, side, 3), np.uint8)
