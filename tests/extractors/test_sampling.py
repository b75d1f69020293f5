from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yt8m.extractors.base import Sound
from yt8m.extractors.published_features import log_mel
from yt8m.extractors.sampling import WholeRows, Windows, nearest_rows
from yt8m.extractors.sampling_rules import rounding


def chosen(times: list[float], per_second: float, start: float = 0.0, end: float | None = None, most: int = 300):
    sampler = nearest_rows(per_second, start, end, most)
    found = [pair for time in times for pair in sampler.add(time, time)]
    return found + list(sampler.finish())


@given(
    st.lists(st.floats(0, 30), min_size=1, max_size=60),
    st.sampled_from([0.5, 1.0, 2.0, 3.0]),
    st.sampled_from([0.0, 2.5]),
    st.sampled_from([None, 9.0]),
    st.integers(1, 40),
)
def test_each_frame_is_the_nearest_one(
    given_times: list[float], per_second: float, start: float, end: float | None, most: int
) -> None:
    times = sorted(given_times)
    last = times[-1]
    expected = []
    for row in range(most):
        second = start + row / per_second
        if (end is not None and second >= end) or second - last > 0.5 / per_second:
            break
        expected.append((row, min(times, key=lambda time: (abs(time - second), time))))
    found = chosen(times, per_second, start, end, most)
    assert [row for row, _ in found] == [row for row, _ in expected]
    for (row, time), (_, best) in zip(found, expected, strict=True):
        second = start + row / per_second
        assert abs(time - second) == pytest.approx(abs(best - second), abs=1e-9)


def test_a_clip_of_19_6_frames_a_second_does_not_drift() -> None:
    times = [number / 19.6 for number in range(round(11 * 19.6))]
    assert [round(time) for _, time in chosen(times, 1.0)] == list(range(12))
    assert max(abs(time - row) for row, time in chosen(times, 1.0)[:-1]) <= 0.5 / 19.6 + 1e-9


@pytest.mark.parametrize("pieces", [1, 7, 100, 16000])
def test_windows_are_those_of_the_whole_sound(pieces: int) -> None:
    sound = np.random.default_rng(0).uniform(-1, 1, 16000 * 3 + 500).astype(np.float32)
    windows = Windows(Sound(16000, 15600, 16000), 0.0, 300.0)
    found: dict[int, np.ndarray] = {}
    size = max(1, len(sound) // pieces)
    for place in range(0, len(sound), size):
        for first, values in windows.add(place / 16000, sound[place : place + size], 16000):
            found |= {first + number: value for number, value in enumerate(values)}
    for first, values in windows.finish():
        found[first] = values[0]
    assert sorted(found) == [0, 1, 2, 3]
    for number in range(4):
        expected = np.zeros(15600, np.float32)
        part = sound[number * 16000 : number * 16000 + 15600]
        expected[: len(part)] = part
        np.testing.assert_array_equal(found[number], expected)
    assert windows.end == pytest.approx(len(sound) / 16000)


def collect(windows: Windows, *parts: tuple[float, np.ndarray]) -> np.ndarray:
    found = [values for time, samples in parts for _, values in windows.add(time, samples.astype(np.float32), 100)]
    return np.concatenate([*found, *(values for _, values in windows.finish())])


def test_windows_that_overlap_gaps_and_starts() -> None:
    ramp = np.arange(1.0, 101.0)
    overlapping = collect(Windows(Sound(100, 60, 40), 0.0, 300.0), (0.0, ramp))
    np.testing.assert_array_equal(overlapping[1], ramp[40:100])
    long = collect(
        Windows(Sound(100, 90, 20), 0.0, 300.0), (0.0, ramp)
    )  # a row for each hop up to the end of the sound
    np.testing.assert_array_equal(long, [np.pad(ramp, (0, 90))[start : start + 90] for start in range(0, 100, 20)])
    with_gap = collect(Windows(Sound(100, 50, 50), 0.0, 300.0), (0.0, ramp[:50]), (1.5, ramp[:50]))
    np.testing.assert_array_equal(with_gap, np.stack([ramp[:50], 0 * ramp[:50], 0 * ramp[:50], ramp[:50]]))
    late = collect(Windows(Sound(100, 50, 50), 0.0, 300.0), (0.5, ramp[:50]))
    np.testing.assert_array_equal(late, np.stack([0 * ramp[:50], ramp[:50]]))
    from_half = collect(Windows(Sound(100, 50, 50), 0.5, 300.0), (0.0, ramp))
    np.testing.assert_array_equal(from_half, ramp[np.newaxis, 50:])
    limited = collect(Windows(Sound(100, 50, 50), 0.0, 0.5), (0.0, ramp))
    np.testing.assert_array_equal(limited, ramp[np.newaxis, :50])


def test_a_huge_gap_costs_no_memory() -> None:
    windows = Windows(Sound(100, 50, 50), 0.0, 10.0)
    found = collect(windows, (0.0, np.ones(50)), (1e12, np.ones(50)))
    assert found.shape == (20, 50)
    assert found[1:].max() == 0


def test_a_rate_that_changes_gets_a_new_resampler() -> None:
    """A tone of 5 Hz, first with 200 and then with 400 samples a second, goes on after the change."""
    windows = Windows(Sound(100, 100, 100), 0.0, 10.0)
    found = []
    for second in range(6):
        rate = 200 if second < 3 else 400
        samples = np.sin(2 * np.pi * 5 * (second + np.arange(rate) / rate)).astype(np.float32)
        found += [values for _, values in windows.add(float(second), samples, rate)]
    tones = np.concatenate([*found, *(values for _, values in windows.finish())])
    assert windows.has_changed_rate
    assert tones.shape == (6, 100)
    expected = np.sin(2 * np.pi * 5 * np.arange(600) / 100).reshape(6, 100)
    np.testing.assert_allclose(tones[:, 20:80], expected[:, 20:80], atol=0.02)
    with pytest.raises(ValueError, match="sample rate 0"):
        list(windows.add(6.0, np.ones(50, np.float32), 0))


@pytest.mark.parametrize(("share", "samples", "count"), [(0.0, 1, 3), (0.5, 24, 2), (0.5, 25, 3), (0.5, 49, 3)])
def test_a_window_with_little_sound_is_left_out(share: float, samples: int, count: int) -> None:
    windows = Windows(Sound(100, 50, 50), 0.0, 10.0, share)
    assert len(collect(windows, (0.0, np.ones(100 + samples)))) == count


def test_the_first_window_is_made_of_any_sound() -> None:
    assert len(collect(Windows(Sound(100, 50, 50), 0.0, 10.0, 0.5), (0.0, np.ones(3)))) == 1


@given(
    st.lists(st.floats(0, 20), min_size=1, max_size=40),
    st.floats(0.01, 3),
    st.sampled_from([0.5, 1.0, 2.0, 30.0]),
    st.sampled_from([0.0, 2.5]),
    st.sampled_from([None, 9.0, 2.6]),
    st.integers(1, 40),
)
def test_whole_rows_are_those_with_half_of_their_length(
    given_times: list[float], duration: float, per_second: float, start: float, end: float | None, most: int
) -> None:
    """Compared with the definition: the nearest frame for each row, half of which lies in the part."""
    times = sorted(given_times)
    sampler = WholeRows[float](per_second, start, end, most)
    found = [pair for time in times for pair in sampler.add(time, time)]
    video_end = times[-1] + duration
    found += sampler.finish(video_end)
    length = min(video_end, math.inf if end is None else end) - start
    slack = rounding(per_second)
    rows = [row for row in range(most) if row == 0 or (row + 0.5) / per_second <= length + slack]
    expected = rows if video_end > start else []
    assert [row for row, _ in found] == expected
    for row, time in found:
        second = start + row / per_second
        assert abs(time - second) == pytest.approx(min(abs(other - second) for other in times), abs=1e-9)


@pytest.mark.parametrize("rate", [8000, 11025, 12000, 22050, 24000, 32000, 44100, 48000, 96000])
def test_resampled_sound_is_that_of_an_ideal_low_pass(rate: int) -> None:
    """The reference cuts and extends the spectrum of the whole sound, which ends below half of the lower rate."""
    seconds, highest = 3, 0.9 * min(rate, 16000) / 2
    spectrum = np.zeros(seconds * rate // 2 + 1, np.complex128)
    phases = np.random.default_rng(0).uniform(0, 2 * np.pi, int(highest * seconds))
    spectrum[: len(phases)] = np.exp(1j * phases)
    expected_spectrum = np.zeros(seconds * 16000 // 2 + 1, np.complex128)
    expected_spectrum[: len(phases)] = np.exp(1j * phases)
    sound = np.fft.irfft(spectrum, seconds * rate) * rate / 1000
    expected = np.fft.irfft(expected_spectrum, seconds * 16000) * 16
    windows = Windows(Sound(16000, 16000, 16000), 0.0, 300.0)
    found = [
        values[0]
        for place in range(0, len(sound), 1000)
        for _, values in windows.add(place / rate, sound[place : place + 1000].astype(np.float32), rate)
    ]
    middle = log_mel(np.stack(found)[1:2]), log_mel(expected[np.newaxis, 16000:32000])
    np.testing.assert_allclose(*middle, rtol=0, atol=0.1)
