"""Turns decoded frames upright, and scales them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m.extractors.base import Scaling

# PyAV's object that converts and scales pictures with FFmpeg's swscale, for each scaling.
Reformatters = Mapping[Scaling | None, Any]


def new_reformatters() -> Reformatters:
    """A dictionary that makes the object for a scaling at its first use: making it takes longer than scaling."""
    from av.video.reformatter import VideoReformatter

    return defaultdict(VideoReformatter)


class ScaledPicture:
    """A decoded frame as a picture, which is computed once for each scaling that is requested.

    Args:
      pixel_width: how wide a pixel is shown, relative to its height.
    """

    def __init__(self, frame: Any, pixel_width: float, reformatters: Reformatters) -> None:
        self.frame, self._pixel_width, self._reformatters = frame, pixel_width, reformatters
        self._converted: dict[Scaling | None, NDArray[np.uint8]] = {}

    def scaled(self, scaling: Scaling | None) -> NDArray[np.uint8]:
        """The picture, uint8 [height, width, 3] in RGB: with square pixels, turned upright, then scaled and cropped."""
        if scaling not in self._converted:
            self._converted[scaling] = self._convert(scaling)
        return self._converted[scaling]

    def _convert(self, scaling: Scaling | None) -> NDArray[np.uint8]:
        width, height = shown_size(self.frame.width, self.frame.height, self._pixel_width)
        interpolation = "bicubic"
        if scaling is not None:
            width, height = _scaled_size(width, height, scaling)
            interpolation = scaling.interpolation
        reformat = self._reformatters[scaling].reformat
        converted = reformat(self.frame, width, height, "rgb24", interpolation=interpolation.upper())
        picture = np.rot90(converted.to_ndarray(), round(self.frame.rotation / 90))
        if scaling is not None and scaling.size:
            top, left_edge = ((side - scaling.size) // 2 for side in picture.shape[:2])
            picture = picture[top : top + scaling.size, left_edge : left_edge + scaling.size]
        return np.ascontiguousarray(picture)


def shown_size(width: int, height: int, pixel_width: float) -> tuple[int, int]:
    """The size in pixels at which a picture is shown on a screen, whose pixels are square.

    Neither side becomes shorter, as in browsers, so that no detail is lost.

    Args:
      pixel_width: how wide a pixel is shown, relative to its height.
    """
    if pixel_width >= 1:
        return round(width * pixel_width), height
    return width, round(height / pixel_width)


def _scaled_size(width: int, height: int, scaling: Scaling) -> tuple[int, int]:
    """The width and the height, in pixels, to which a picture is scaled before the square is cut out of it."""
    if not scaling.shorter_side:
        return scaling.size, scaling.size
    factor = scaling.shorter_side / min(width, height)
    return max(scaling.size, round(width * factor)), max(scaling.size, round(height * factor))
