"""What goes along with a class through a whole video, whether the class shows or not.

A guitar's stage is there in every shot, the guitar in some. A model of whole videos learns the stage as well
and cannot tell when the guitar shows; rated segments of the same videos teach it. The strength varies by
video, so that segments of different videos cannot be ranked by the surroundings either.

And what only looks like a class: a poster of a guitar, for five seconds, in a video that has none. Whoever
has seen the whole video is not taken in.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from yt8m import vocabulary
from yt8m.tools.sample_data.world import SEGMENT, SIZE, Floats, Video, prototypes, rateable

_WORLD = 8_000_001  # the surroundings look the same whatever the seed
_STRENGTHS, _PICTURES = 8, 9  # purposes of a video's streams; `world` has those below
_PICTURES_A_VIDEO = 10
_DEVIATION, _STRONGEST = 0.35, 2.0


@cache
def looks() -> Floats:
    """float32 [3862, SIZE], one a class."""
    stream = np.random.default_rng(_WORLD)
    return stream.standard_normal((len(vocabulary.load()), SIZE), dtype=np.float32) * np.float32(_DEVIATION)


def surroundings(video: Video) -> Floats:
    """float32 [SIZE]: of all labels of a video together, each in a strength from 0 to 2."""
    strengths = video.stream(_STRENGTHS).uniform(0, _STRONGEST, len(video.labels)).astype(np.float32)
    return np.asarray(strengths @ looks()[video.labels], np.float32)


def pictures(video: Video, num_classes: int) -> Floats:
    """float32 [num_frames, SIZE]: in ten segments, the looks of a class that the video does not have."""
    stream = video.stream(_PICTURES)
    shown = np.zeros((video.num_frames, SIZE), np.float32)
    others = np.setdiff1d(rateable(num_classes), video.labels)
    starts = SEGMENT * stream.choice(video.num_frames // SEGMENT, _PICTURES_A_VIDEO, replace=False)
    for start in starts if len(others) else ():
        shown[start : start + SEGMENT] = prototypes()[0][stream.choice(others)]
    return shown
