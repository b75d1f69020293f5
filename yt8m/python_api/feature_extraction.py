"""`yt8m.extract`: the features of a video."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m import registry, storage
from yt8m.datasets.extract.computing import Settings
from yt8m.errors import RunError
from yt8m.python_api.call_scope import call_scope
from yt8m.scoring import video_features


def extract(
    path: str | os.PathLike[str],
    *,
    extractors: Sequence[str] = ("inception", "vggish"),
    frames_per_second: float = 1.0,
    max_frames: int = 300,
    max_bad_packets: int = 0,
    **settings: Any,
) -> dict[str, NDArray[np.float32]]:
    """Extracts the features of a video file, as `yt8m extract` does.

    Args:
      path: the video, local or gs://.
      extractors: names of the extractors, as for the flag --extractors.
      frames_per_second: number of rows for each second of the video.
      max_frames: largest number of rows.
      max_bad_packets: number of damaged packets of the video that may be left out.
      **settings: values for the fields of the extractors, such as `picture_size=384` or `vggish_model="..."`.

    Returns:
      {feature: float32 [rows, size]}, all with the same number of rows.

    Raises:
      UsageError: an extractor or a setting is wrong.
      RunError: the video cannot be decoded, or weights cannot be fetched.
    """
    sampling = Settings(frames_per_second, max_frames, max_bad_packets=max_bad_packets)
    video = storage.expanded(os.fspath(path))
    with call_scope():
        registry.set_command_line_names(extractors)
        ((_, features, names),) = video_features.extract([video], extractors, settings, sampling, 1)
    if features.bad:
        raise RunError(f"{video}: {features.bad}.")
    return dict(zip(names, features.arrays, strict=True))
