"""Clips in every kind of video, compared with a plain loop over all frames of the file."""

from __future__ import annotations

import pathlib
import weakref
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import cases
import made_videos
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yt8m.extractors.base import Clips, Scaling
from yt8m.extractors.decoding import Request, decode
from yt8m.extractors.sampling import NearestClips, clip_of_row, nearest_rows

MOVING = made_videos.shape("stripes")
FORMS = (Clips(8, 4.0), Clips(3, 10.0, 2.0), Clips(1, 1.0), Clips(5, 7.3, 0.7))


def shown(path: str) -> list[tuple[float, np.ndarray]]:
    """Each frame with its second, by a plain loop."""
    import av

    with av.open(path) as container:
        starts = [float(one.start_time * one.time_base) for one in container.streams if one.start_time is not None]
        return [
            (
                float(frame.pts * frame.time_base) - max(0.0, min(starts)),
                np.rot90(frame.to_ndarray(format="rgb24", interpolation="BICUBIC"), round(frame.rotation / 90)),
            )
            for frame in container.decode(video=0)
        ]


def nearest(frames: list[tuple[float, Any]], second: float) -> Any:
    return min(frames, key=lambda pair: (round(abs(pair[0] - second), 6), pair[0]))[1]


def clip(frames: list[tuple[float, Any]], form: Clips, number: int, start: float = 0.0, end: float = 1e9) -> list[Any]:
    middle = start + number * form.hop
    seconds = [middle + (place - (form.frames - 1) / 2) / form.rate for place in range(form.frames)]
    return [nearest(frames, min(max(start, second), end)) for second in seconds]


def check(path: str, form: Clips, start: float = 0.0, end: float | None = None, most: int = 300) -> None:
    """Compares each clip that a row needs with the plain loop."""
    messages = list(decode(Request(path, 1.0, most, start, end, (None,), clips=(form,))))
    decoded = {one.row: one.values for one in messages if one.kind == "clip"}
    rows, frames = messages[-1].details["rows"], shown(path)  # type: ignore[index]
    expected = {clip_of_row(row, 1.0, form.hop) for row in range(rows)}
    assert expected <= decoded.keys()
    for number in expected:
        pictures = clip(frames, form, number, start, 1e9 if end is None else end)
        np.testing.assert_array_equal(decoded[number], np.stack(pictures))


def of_rate(fps: Fraction) -> Callable[[pathlib.Path], str]:
    return lambda folder: made_videos.write(folder / "clip.mp4", MOVING, None, 6.0, fps=fps)


def of_times(times: list[float]) -> Callable[[pathlib.Path], str]:
    return lambda folder: made_videos.write(folder / "clip.mkv", MOVING, None, times=times)


def with_b_frames(folder: pathlib.Path) -> str:
    options = {"bf": "3", "b_strategy": "0", "preset": "medium", "g": "24"}
    return made_videos.write(folder / "clip.mp4", MOVING, None, 6.0, fps=24, options=options)


def rotated(folder: pathlib.Path) -> str:
    path = made_videos.write(folder / "clip.mp4", MOVING, None, 3.0)
    return made_videos.turn(path)


def cut(folder: pathlib.Path) -> str:
    path = made_videos.write(folder / "clip.ts", MOVING, made_videos.tone("disc"), 6.0)
    content = pathlib.Path(path).read_bytes()
    pathlib.Path(path).write_bytes(content[: len(content) // 2 // 188 * 188])
    return path


def of_a_later_start(folder: pathlib.Path) -> str:
    """A transport stream begins at 1.4 seconds."""
    return made_videos.write(folder / "clip.ts", MOVING, made_videos.tone("disc"), 4.0)


VIDEOS: dict[str, Callable[[pathlib.Path], str]] = {
    "23.976": of_rate(Fraction(24000, 1001)),
    "29.97": of_rate(Fraction(30000, 1001)),
    "variable": of_times([0.0, 0.1, 0.2, 1.4, 1.5, 2.05, 2.1, 4.0]),
    "late": of_times([1.5 + number / 10 for number in range(40)]),
    "one picture": of_times([0.0]),
    "0.2 seconds": lambda folder: made_videos.write(folder / "clip.mp4", MOVING, None, 0.2, fps=25),
    "B-frames": with_b_frames,
    "rotated": rotated,
    "cut": cut,
    "later start": of_a_later_start,
}


@pytest.mark.parametrize("form", cases.only(FORMS, [FORMS[3]]), ids=str)
@pytest.mark.parametrize("video", VIDEOS)
def test_pictures_of_clips_are_those_of_a_plain_loop(tmp_path: pathlib.Path, video: str, form: Clips) -> None:
    check(VIDEOS[video](tmp_path), form)


@pytest.mark.parametrize(("start", "end"), cases.all_of([(3.0, 3.2)], heavy=[(1.3, None), (6.2, 9.4), (0.0, 2.5)]))
def test_clips_of_a_part_stay_within_it(tmp_path: pathlib.Path, start: float, end: float | None) -> None:
    path = made_videos.write(tmp_path / "clip.mp4", MOVING, None, 12.0, options={"g": "10"})
    for form in FORMS[:2]:
        check(path, form, start, end)


def test_the_last_of_a_limited_number_of_rows_sees_what_follows(tmp_path: pathlib.Path) -> None:
    check(made_videos.write(tmp_path / "clip.mp4", MOVING, None, 8.0), FORMS[0], most=3)


def test_clips_are_scaled_as_pictures_are(tmp_path: pathlib.Path) -> None:
    path, scalings = made_videos.write(tmp_path / "clip.mp4", MOVING, None, 3.0), (Scaling(20, 24), Scaling(0, 24))
    request = Request(path, 1.0, 300, pictures=scalings, clips=tuple(Clips(1, 1.0, 1.0, one) for one in scalings))
    messages = [message for message in decode(Request.from_json([*request])) if message.values is not None]
    pictures = {(one.form_index, one.row): one.values for one in messages if one.kind == "picture"}
    clips = {
        (one.form_index, one.row): one.values[0] for one in messages if one.kind == "clip" and one.values is not None
    }
    assert {values.shape for values in clips.values()} == {(20, 20, 3), (24, 32, 3)}
    for key, picture in pictures.items():
        np.testing.assert_array_equal(clips[key], picture)


@given(
    st.lists(st.floats(0, 20), min_size=1, max_size=40),
    st.integers(1, 9),
    st.sampled_from([0.5, 2.0, 3.7]),
    st.sampled_from([0.3, 1.0, 2.5]),
    st.sampled_from([0.5, 1.0, 3.0]),
    st.sampled_from([(0.0, None), (2.5, None), (2.5, 7.0)]),
)
def test_clips_of_any_times(
    shown_at: list[float], frames: int, rate: float, hop: float, per_second: float, part: tuple[float, float | None]
) -> None:
    times, (start, end) = sorted(shown_at), part
    rows = nearest_rows(per_second, start, end, 30)
    clips = NearestClips[float, float](Clips(frames, rate, hop), per_second, start, end, 30, lambda time: time)
    number_of_rows, complete = 0, {}
    for time in times:
        number_of_rows += sum(1 for _ in rows.add(time, time))
        complete |= dict(clips.add(time, time))
    number_of_rows += sum(1 for _ in rows.finish())
    complete |= dict(clips.finish(number_of_rows))
    for row in range(number_of_rows):
        number = clip_of_row(row, per_second, hop)
        middles = [abs(row / per_second - j * hop) for j in range(number + 3)]
        assert abs(middles[number] - min(middles)) < 1e-8
        middle = start + number * hop
        seconds = [middle + (place - (frames - 1) / 2) / rate for place in range(frames)]
        for second, chosen in zip(seconds, complete[number], strict=True):
            target = min(max(start, second), np.inf if end is None else end)
            assert abs(chosen - target) == pytest.approx(min(abs(time - target) for time in times), abs=1e-9)


class _Frame:
    """A frame that can be counted."""


@pytest.mark.parametrize("form", [Clips(64, 4.0), Clips(16, 7.3, 0.7)], ids=str)
def test_what_is_kept_of_a_long_video_is_bounded_by_the_length_of_a_clip(form: Clips) -> None:
    alive, most, number = weakref.WeakSet[_Frame](), 0, 0
    clips = NearestClips[_Frame, _Frame](form, 1.0, 0.0, None, 100_000, lambda frame: frame)
    for number in range(30 * 600):
        alive.add(frame := _Frame())
        for _ in clips.add(number / 30, frame):
            pass
        most = max(most, len(alive))
    span = form.frames / form.rate
    assert most <= min(span * 30, form.frames * (span / form.hop + 1)) + 2
