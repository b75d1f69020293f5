"""The logarithmic mel spectrogram that VGGish takes, in NumPy.

The parameters are those of AudioSet: windows of 25 ms every 10 ms, a periodic Hann window, an FFT of 512 values,
magnitudes, 64 mel bands from 125 to 7500 Hz, log(mel + 0.01).
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy.typing import NDArray

RATE, ROWS, BANDS = 16000, 96, 64
_WINDOW, _STEP, _FFT = 400, 160, 512
_LOWEST, _HIGHEST, _OFFSET = 125.0, 7500.0, 0.01
SAMPLES = (ROWS - 1) * _STEP + _WINDOW  # samples of the waveform that ROWS rows cover


def log_mel(waveforms: NDArray[Any]) -> NDArray[np.float32]:
    """The spectrograms, float32 [N, rows, 64], of waveforms [N, samples] at 16 kHz; rows = 1 + (samples - 400) // 160.

    Source: mel_features.log_mel_spectrogram of AudioSet (tensorflow/models).
    """
    windows = np.lib.stride_tricks.sliding_window_view(waveforms, _WINDOW, axis=-1)[:, ::_STEP]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi / _WINDOW * np.arange(_WINDOW))
    magnitudes = np.abs(np.fft.rfft(windows * hann, _FFT))
    bank = mel_filter_bank(_FFT // 2 + 1, RATE, BANDS, _LOWEST, _HIGHEST)
    return np.asarray(np.log(magnitudes @ bank + _OFFSET), np.float32)


@functools.lru_cache(8)
def mel_filter_bank(bins: int, rate: float, bands: int, lowest: float, highest: float) -> NDArray[np.float64]:
    """The matrix [bins, bands] that maps magnitudes of a spectrum to mel bands.

    Each band is a triangle on the mel scale of HTK, 1127 ln(1 + f / 700), from the centre of the band below to that
    of the band above. As in the bank of MediaPipe, the bins up to `lowest`, rounded, count for no band.

    Args:
      bins: number of bins of the spectrum, from 0 Hz to half of `rate`.
      rate: samples per second.
      bands: number of mel bands.
      lowest, highest: the limits of the bands in Hz.
    """
    hertz = np.linspace(0.0, rate / 2, bins)
    edges = np.linspace(_mel(lowest), _mel(highest), bands + 2)
    place, widths = _mel(hertz)[:, np.newaxis], np.diff(edges)
    rising, falling = (place - edges[:-2]) / widths[:-1], (edges[2:] - place) / widths[1:]
    matrix = np.maximum(0.0, np.minimum(rising, falling))
    matrix[: int(1.5 + lowest / (rate / 2 / (bins - 1)))] = 0.0
    return np.asarray(matrix)


def _mel(hertz: Any) -> Any:
    return 1127.0 * np.log1p(np.asarray(hertz) / 700.0)
