"""Parts of videos, in every container, compared with a plain loop over all frames of the file."""

from __future__ import annotations

import pathlib

import cases
import made_videos
import numpy as np
import pytest

from yt8m.extractors.base import Sound
from yt8m.extractors.decoding import Request, decode

SOUND = Sound(16000, 15600, 16000)
_LONGEST = 14.0


def nearest_pictures(path: str, start: float, count: int) -> list[np.ndarray]:
    """The picture nearest to each second from `start` on, by a loop over all frames."""
    import av

    with av.open(path) as container:
        starts = [float(one.start_time * one.time_base) for one in container.streams if one.start_time is not None]
        shown = [
            (
                float(frame.pts * frame.time_base) - min(starts),
                frame.to_ndarray(format="rgb24", interpolation="BICUBIC"),
            )
            for frame in container.decode(video=0)
        ]
    return [
        min(shown, key=lambda pair: (round(abs(pair[0] - second), 6), pair[0]))[1]
        for second in start + np.arange(count)
    ]


def extracted(path: str, start: float, count: int) -> tuple[list[np.ndarray], np.ndarray]:
    request = Request(path, most=count, start=start, pictures=(None,), sounds=(SOUND,))
    messages = [one for one in decode(request) if one.values is not None]
    sounds = [one.values for one in messages if one.kind == "sound"]
    return [one.values for one in messages if one.kind == "picture"], np.concatenate(sounds)


def difference(heard: np.ndarray, expected: np.ndarray) -> float:
    """The largest one. Some containers round times to milliseconds, so that sound moves by up to eight samples."""
    shifts = (np.abs(np.roll(heard, shift) - expected)[10:-10].max() for shift in range(-8, 9))
    return float(min(shifts))


@pytest.mark.parametrize("keyframes", [2.0, *(pytest.param(each, marks=pytest.mark.heavy) for each in (0.5, 10.0))])
@pytest.mark.parametrize("ending", cases.only(sorted(made_videos.CODECS), ["mp4"]))
def test_a_part_begins_with_the_picture_nearest_to_its_start(
    tmp_path: pathlib.Path, ending: str, keyframes: float
) -> None:
    codec = made_videos.CODECS[ending][0]
    options = {"g": str(round(keyframes * (25 if codec.startswith("mpeg") and ending.startswith("mp") else 6)))}
    if codec in ("libx264", "mpeg4", "mpeg2video", "mpeg1video"):
        options |= {"bf": "2", "sc_threshold": "0" if codec == "libx264" else "1000000000"}
    picture, sound = made_videos.shape("stripes"), made_videos.tone("square")
    path = made_videos.write(tmp_path / f"clip.{ending}", picture, sound, _LONGEST, fps=6, options=options)
    whole = extracted(path, 0.0, 14)[1]
    for start, count in ((6.2, 3), (9.0, 3)):
        pictures, heard = extracted(path, start, count)
        np.testing.assert_array_equal(pictures, nearest_pictures(path, start, count))
        if start == round(start):
            assert difference(heard[1], whole[int(start) + 1]) < 0.03
