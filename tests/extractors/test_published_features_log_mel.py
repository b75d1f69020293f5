from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.fft
import scipy.signal
from golden_data import golden

from yt8m.extractors.published_features import ROWS, SAMPLES, log_mel, mel_filter_bank


@pytest.mark.parametrize(("lowest", "name"), [(20.0, "from_20_hz"), (0.0, "from_0_hz")])
def test_the_published_filter_bank(lowest: float, name: str) -> None:
    expected = np.load(golden("mel_filterbank.npz"))[name]
    found = np.sqrt(np.arange(1, 514)) @ mel_filter_bank(513, 22050, 20, lowest, 4000)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


def slow_bank() -> list[list[float]]:
    """AudioSet's bank, band by band: triangles between edges that are equally far apart on the mel scale."""

    def mel(hertz: float) -> float:
        return 1127.0 * math.log(1.0 + hertz / 700.0)

    edges = [mel(125.0) + step * (mel(7500.0) - mel(125.0)) / 65 for step in range(66)]
    bank = [[0.0] * 64 for _ in range(257)]
    for number in range(1, 257):
        place = mel(number * 8000.0 / 256)
        for band in range(64):
            low, centre, high = edges[band : band + 3]
            bank[number][band] = max(0.0, min((place - low) / (centre - low), (high - place) / (high - centre)))
    return bank


def test_the_bank_of_vggish_is_that_of_audioset() -> None:
    np.testing.assert_allclose(mel_filter_bank(257, 16000, 64, 125.0, 7500.0), slow_bank(), rtol=0, atol=1e-12)


def test_rows_are_those_of_a_loop_with_scipy() -> None:
    waveform = np.random.default_rng(0).uniform(-1, 1, SAMPLES)
    window = scipy.signal.get_window("hann", 400, fftbins=True)
    expected = []
    for row in range(ROWS):
        part = np.zeros(512)
        part[:400] = waveform[row * 160 : row * 160 + 400] * window
        expected.append(np.log(np.abs(scipy.fft.rfft(part)) @ np.array(slow_bank()) + 0.01))
    found = log_mel(np.stack([waveform, np.zeros(SAMPLES)]))
    assert found.shape == (2, 96, 64)
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(found[1], math.log(0.01), rtol=1e-6)


def test_a_tone_is_loudest_in_the_band_around_it() -> None:
    seconds = np.arange(SAMPLES) / 16000
    for hertz in (200.0, 1000.0, 4000.0):
        row = log_mel(np.sin(2 * np.pi * hertz * seconds)[np.newaxis])[0, 10]
        edges = np.linspace(1127 * math.log1p(125 / 700), 1127 * math.log1p(7500 / 700), 66)
        band = int(row.argmax())
        assert edges[band] <= 1127 * math.log1p(hertz / 700) <= edges[band + 2]
