"""The published sound feature `audio`: VGGish without its last ReLU, then AudioSet's PCA.

VGGish takes logarithmic mel spectrograms, which `log_mel` computes in NumPy. Their parameters are those of AudioSet:
windows of 25 ms every 10 ms, a periodic Hann window, an FFT of 512 values, magnitudes, 64 mel bands from 125 to
7500 Hz, log(mel + 0.01).
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from yt8m import storage
from yt8m.errors import UsageError
from yt8m.extractors import frozen_graphs
from yt8m.extractors.base import Compute, Extractor, PublishedFile, named, weights
from yt8m.lazy import tf
from yt8m.records.data_format import PUBLISHED, Range
from yt8m.storage import copies

_AUDIOSET = "https://storage.googleapis.com/audioset"
_MODEL = PublishedFile("vggish_model.ckpt", f"{_AUDIOSET}/vggish_model.ckpt", "d1c7011e6366aa34176bb05c705e31a8")
_PCA = PublishedFile(
    "vggish_pca_params.npz",
    f"{_AUDIOSET}/vggish_pca_params.npz",
    md5="c80cae691033abe7c7ecd11ea39fc834",
    sha256="4d878af3e306defbfb37095365aa7e5a6cecb86bad13e859e626151c4e6a8b9d",
)
SPECTROGRAM, EMBEDDING = "vggish/input_features:0", "vggish/fc2/BiasAdd:0"
_CONVOLUTIONS = (("conv1",), ("conv2",), ("conv3/conv3_1", "conv3/conv3_2"), ("conv4/conv4_1", "conv4/conv4_2"))
_DENSE = ("fc1/fc1_1", "fc1/fc1_2", "fc2")

RATE, ROWS, BANDS = 16000, 96, 64
_WINDOW, _STEP, _FFT = 400, 160, 512
_LOWEST, _HIGHEST, _OFFSET = 125.0, 7500.0, 0.01
SAMPLES = (ROWS - 1) * _STEP + _WINDOW  # samples of the waveform that ROWS rows cover


@named("vggish")
@dataclass(frozen=True)
class Vggish(Extractor):
    """Features of sound as YouTube-8M has them, approximately: 128 values a second of sound."""

    feature: ClassVar[str] = "audio"
    takes: ClassVar[Literal["frames", "clips", "waveform"]] = "waveform"
    size: ClassVar[int] = 128
    bytes_range: ClassVar[Range | None] = PUBLISHED
    rate: ClassVar[int] = RATE
    window: ClassVar[int] = SAMPLES
    hop: ClassVar[int] = RATE  # one second, as in MediaPipe's graph of YouTube-8M; VGGish's own demo takes 0.96 s

    vggish_model: str = weights("VGGish: its checkpoint, or a frozen graph (.pb)", _MODEL)
    vggish_pca: str = weights("PCA of audio: .npz with pca_means and pca_eigen_vectors", _PCA)

    @contextlib.contextmanager
    def open(self, weights: Mapping[str, str]) -> Iterator[Compute]:
        """See `Extractor`."""
        means, vectors = frozen_graphs.arrays(weights["vggish_pca"], ("pca_means", "pca_eigen_vectors"))
        if vectors.shape != (self.size, self.size) or means.size != self.size:
            shapes = f"{list(means.shape)} and {list(vectors.shape)}"
            raise UsageError(
                f"{weights['vggish_pca']}: pca_means and pca_eigen_vectors are {shapes}; expected [128] and [128, 128]."
            )
        with _model(weights["vggish_model"]) as embeddings:
            pca = weights["vggish_pca"]
            yield frozen_graphs.projected(lambda sound: embeddings(log_mel(sound)), means.reshape(-1), vectors.T, pca)


def _model(path: str) -> contextlib.AbstractContextManager[Compute]:
    if path.lower().endswith(".pb"):
        return frozen_graphs.opened(storage.read_bytes(path), path, SPECTROGRAM, EMBEDDING, [None, ROWS, BANDS])
    local = copies.file_copy(path)
    problem = f"{path} is neither a frozen graph (.pb) nor the checkpoint of VGGish"
    return frozen_graphs.computing(lambda: _of_checkpoint(local), problem)


def _of_checkpoint(path: str) -> tuple[tf.Tensor, tf.Tensor]:
    """Builds VGGish with the weights of a checkpoint as constants; the checkpoint gives the sizes of the layers.

    Source: vggish_slim.py of AudioSet (tensorflow/models). The embedding is taken before the last ReLU, as in
    MediaPipe's graph of YouTube-8M.
    """
    checkpoint = tf.train.load_checkpoint(path)

    def variables(layer: str) -> tuple[NDArray[Any], NDArray[Any]]:
        return checkpoint.get_tensor(f"vggish/{layer}/weights"), checkpoint.get_tensor(f"vggish/{layer}/biases")

    spectrograms = tf.placeholder(tf.float32, [None, ROWS, BANDS])
    net = spectrograms[..., tf.newaxis]
    for block in _CONVOLUTIONS:
        for layer in block:
            kernel, bias = variables(layer)
            net = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(net, kernel, 1, "SAME"), bias))
        net = tf.nn.max_pool2d(net, 2, 2, "SAME")
    net = tf.reshape(net, [-1, int(np.prod(net.shape[1:]))])
    for layer in _DENSE:
        matrix, bias = variables(layer)
        net = tf.nn.bias_add(tf.matmul(net if layer == _DENSE[0] else tf.nn.relu(net), matrix), bias)
    return spectrograms, net


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
