"""What goes along with a class through a whole video, whether the class shows or not.

A guitar's stage is there in every shot, the guitar in some. A model of whole videos learns the stage as well
and cannot tell when the guitar shows; rated segments of the same videos teach it. The strength varies by
video, so that segments of different videos cannot be ranked by the surroundings either.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from yt8m import vocabulary
from yt8m.tools.sample_data.world import SIZE, Floats, Video

_WORLD = 8_000_001  # the surroundings look the same whatever the seed
_PURPOSE = 8  # of the stream of a video; `world` has those below
_DEVIATION, _STRONGEST = 0.35, 2.0


@cache
def looks() -> Floats:
    """float32 [3862, SIZE], one a class."""
    stream = np.random.default_rng(_WORLD)
    return stream.standard_normal((len(vocabulary.load()), SIZE), dtype=np.float32) * np.float32(_DEVIATION)


def surroundings(video: Video) -> Floats:
    """float32 [SIZE]: of all labels of a video together, each in a strength from 0 to 2."""
    strengths = video.stream(_PURPOSE).uniform(0, _STRONGEST, len(video.labels)).astype(np.float32)
    return np.asarray(strengths @ looks()[video.labels], np.float32)
