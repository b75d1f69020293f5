"""How a film, a video that is longer than those on which a model was trained, is divided into windows.

The mean of all features of a film is like no training video, so its best classes may be in no scene of the film. So a
film is scored in windows of the median length of the training videos, each of which overlaps the next one by half. The
score of a class is that of its best window, so a class is a tag if its best window reaches the threshold.

The mean of a window with a cut, where a scene ends and another begins, has the same fault: it may look like a third
class. So windows with a cut inside are left out, and a scene in which no window lies gets one of its own. A cut is a
large change of the features from one frame to the next.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from yt8m.errors import UsageError
from yt8m.records.data_format import KNOWN_SIZES, DataFormat

Part = tuple[int, int]  # of the frames of a video: the index of the first frame, and that after the last one

WINDOWS, WHOLE = "windows", "whole"  # the values of --tags_of, which say how films are scored
# A cut is a change of at least so many times the median change, and the typical distance between two frames.
_CUT, _CUT_OF_TYPICAL = 2.5, 0.5
_ROWS_AT_ONCE = 4096  # number of frames whose changes are computed at once
WINDOWS_AT_ONCE = 64  # number of windows that a model scores in a step


class FilmWindows(NamedTuple):
    """How films are divided.

    Attributes:
      longest: the largest number of frames of a training video; a video with more frames is a film.
    """

    size: int
    longest: int

    def are_for(self, count: int) -> bool:
        """Whether a video of `count` frames is a film."""
        return count > self.longest

    def parts(self, count: int, cuts: Sequence[int] = ()) -> list[Part]:
        """The windows of `count` frames; without cuts, the last one ends with the last frame.

        Args:
          cuts: the frames with which new scenes begin, ascending, without frame 0; see `find_cuts`.
        """
        size = min(self.size, count)
        starts = [*range(0, count - size, max(1, size // 2)), count - size]
        whole = [start for start in starts if bisect.bisect(cuts, start) == bisect.bisect(cuts, start + size - 1)]
        for first, last in itertools.pairwise([0, *cuts, count]):
            if not any(first <= start and start + size <= last for start in whole):
                whole.append(max(first, (first + last - size) // 2))
        ends = [0, *cuts, count]
        return [(start, min(start + size, ends[bisect.bisect(ends, start)])) for start in sorted(whole)]


def find_cuts(features: Sequence[NDArray[np.float32]]) -> list[int]:
    """The frames with which new scenes begin, ascending, without frame 0.

    The change from one frame to the next is their distance, in which each feature is divided by its deviation over the
    film, so that all features count alike. A cut is a change that is large both among the changes of the film and in
    comparison with the distances between any two of its frames.

    Args:
      features: float32 [T, size] for each feature.
    """
    squares, features_that_vary = np.zeros(max(0, len(features[0]) - 1)), 0
    for values in features:
        variance = float(values.var(axis=0, dtype=np.float64).sum())
        features_that_vary += variance > 0
        for first in range(0, len(squares) if variance > 0 else 0, _ROWS_AT_ONCE):
            steps = np.diff(values[first : first + _ROWS_AT_ONCE + 1], axis=0)
            squares[first : first + len(steps)] += np.square(steps, dtype=np.float64).sum(axis=1) / variance
    changes = np.sqrt(squares)
    typical = (2 * features_that_vary) ** 0.5  # the root of the mean square of the distance between any two frames
    least = max(_CUT * float(np.median(changes)), _CUT_OF_TYPICAL * typical) if len(changes) else 0.0
    return [int(frame) + 1 for frame in np.flatnonzero((changes >= least) & (changes > 0))]


def windows_for(format: DataFormat, folder: str = "", tags_of: str = "") -> FilmWindows | None:
    """The windows in which a model scores films; None if it scores every video as a whole.

    Args:
      tags_of: the value of --tags_of; empty for windows, unless the features are those of YouTube-8M, or the lengths of
        the training videos are not known.
    """
    lengths = format.video_frames
    if tags_of == WHOLE or (not tags_of and (lengths is None or set(format.sizes()) <= KNOWN_SIZES.keys())):
        return None
    if lengths is None:
        raise UsageError(
            f"--tags_of={tags_of}: {folder} does not know how long its training videos were, because the manifest of "
            "its records does not say it. Make the records again by this version of yt8m, and train on them, or leave "
            "out --tags_of."
        )
    return FilmWindows(*lengths)


def best_scores(score: Callable[[Sequence[Part]], NDArray[np.float32]], windows: Sequence[Part]) -> NDArray[np.float32]:
    """The score of each class in its best window, float32 [C]. Only the scores of a few windows are in memory.

    Args:
      score: computes the scores of windows, float32 [windows, C].
      windows: the windows, at least one.
    """
    groups = (windows[first : first + WINDOWS_AT_ONCE] for first in range(0, len(windows), WINDOWS_AT_ONCE))
    best = score(next(groups)).max(axis=0)
    for group in groups:
        best = np.maximum(best, score(group).max(axis=0))
    return np.asarray(best, np.float32)
