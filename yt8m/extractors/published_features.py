"""The extractors of `rgb` (pictures) and `audio` (sound), which approximate the features of YouTube-8M.

`rgb` is the output of Inception-v3 of 2015-12-05, after the PCA and the whitening of YouTube-8M. `audio` is the output
of VGGish without its last ReLU, after AudioSet's PCA. VGGish takes logarithmic mel spectrograms, which `log_mel`
computes in NumPy with the parameters of AudioSet: windows of 25 ms every 10 ms, a periodic Hann window, an FFT of 512
values, magnitudes, 64 mel bands from 125 to 7500 Hz, log(mel + 0.01).
"""

from __future__ import annotations

import contextlib
import functools
import io
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from yt8m import forks, storage
from yt8m.errors import RunError, UsageError, first_line, refusing
from yt8m.extractors import sampling_rules
from yt8m.extractors.base import Compute, Extractor, PublishedFile, named, weights
from yt8m.lazy import tf
from yt8m.records.data_format import PUBLISHED, Range
from yt8m.storage import copies

_GRAPH = PublishedFile(
    "inception-2015-12-05.tgz", "https://download.tensorflow.org/models/image/imagenet/inception-2015-12-05.tgz"
)
_PICTURE_PCA = PublishedFile("yt8m_pca.tgz", "http://data.yt8m.org/yt8m_pca.tgz")
_GRAPH_IN_ARCHIVE = "classify_image_graph_def.pb"
# The published graph begins with the decoder of one JPEG, which this extractor does not use. It feeds the decoder's
# output, PICTURES, with a batch of pictures of any size: floats from 0 to 255, [N, H, W, 3]. The graph scales them to
# 299 x 299. The tensor POOLED has 2048 values for each picture.
PICTURES, POOLED = "ExpandDims:0", "pool_3:0"
_STABILIZER = 1e-4  # is added to the eigenvalues, as in the feature extractor that YouTube-8M's authors published


@named("inception")
@dataclass(frozen=True)
class Inception(Extractor):
    """Computes approximately the features of pictures in YouTube-8M: 1024 values for each picture."""

    feature: ClassVar[str] = "rgb"
    size: ClassVar[int] = 1024
    bytes_range: ClassVar[Range | None] = PUBLISHED
    sampling: ClassVar[str] = sampling_rules.PUBLISHED

    inception_graph: str = weights("Inception-v3 of 2015-12-05: the .tgz, or the frozen graph (.pb) in it", _GRAPH)
    inception_pca: str = weights(
        "PCA of rgb: the .tgz, or a folder or .npz with mean, eigenvals and eigenvecs (.npy)", _PICTURE_PCA
    )

    @contextlib.contextmanager
    def open(self, weights: Mapping[str, str]) -> Iterator[Compute]:
        """See `Extractor`."""
        path, pca = weights["inception_graph"], weights["inception_pca"]
        mean, matrix = whitening(pca, self.size)
        content, shape = archive_member(path, _GRAPH_IN_ARCHIVE), [None, None, None, 3]
        with open_frozen(content, path, PICTURES, POOLED, shape) as pooled:

            def compute_pooled(pictures: NDArray[Any]) -> NDArray[np.float32]:
                return pooled(pictures.astype(np.float32)).reshape(len(pictures), -1)

            yield project(compute_pooled, mean, matrix, pca)


def whitening(path: str, size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Reads a PCA with whitening.

    The feature of the values x [D] is (x - mean) @ eigenvecs.T[:, :size] / sqrt(eigenvals[:size] + 1e-4). Source: the
    feature extractor of google/youtube-8m.

    Args:
      path: path of the arrays mean [D], eigenvals [D] and eigenvecs [D, D], with a component in each row; see
        `read_arrays`.

    Returns:
      (mean [D], matrix [D, size] such that the feature is (x - mean) @ matrix).
    """
    mean, values, vectors = read_arrays(path, ("mean", "eigenvals", "eigenvecs"))
    width = mean.size
    if values.size != width or vectors.shape != (width, width) or width < size:
        shapes = ", ".join(str(list(array.shape)) for array in (mean, values, vectors))
        raise UsageError(
            f"{path}: mean, eigenvals and eigenvecs are {shapes}; expected [D], [D] and [D, D] with D at least {size}."
        )
    return mean.reshape(-1), vectors.T[:, :size] / np.sqrt(values.reshape(-1)[:size] + _STABILIZER)


_AUDIOSET = "https://storage.googleapis.com/audioset"
_VGGISH = PublishedFile("vggish_model.ckpt", f"{_AUDIOSET}/vggish_model.ckpt", "d1c7011e6366aa34176bb05c705e31a8")
_SOUND_PCA = PublishedFile(
    "vggish_pca_params.npz",
    f"{_AUDIOSET}/vggish_pca_params.npz",
    md5="c80cae691033abe7c7ecd11ea39fc834",
    sha256="4d878af3e306defbfb37095365aa7e5a6cecb86bad13e859e626151c4e6a8b9d",
)
# The input and the output of a frozen graph of VGGish: spectrograms [N, 96, 64], and embeddings [N, 128].
SPECTROGRAM, EMBEDDING = "vggish/input_features:0", "vggish/fc2/BiasAdd:0"
# The names of the layers in the checkpoint of VGGish. A max pooling follows each group of convolutions.
_CONVOLUTIONS = (("conv1",), ("conv2",), ("conv3/conv3_1", "conv3/conv3_2"), ("conv4/conv4_1", "conv4/conv4_2"))
_DENSE = ("fc1/fc1_1", "fc1/fc1_2", "fc2")

RATE, ROWS, BANDS = 16000, 96, 64  # samples per second; rows and mel bands of a spectrogram
# Of a row of a spectrogram, in samples: the length of its window, the distance to the next window, the size of the FFT.
_WINDOW, _STEP, _FFT = 400, 160, 512
_LOWEST, _HIGHEST = 125.0, 7500.0  # limits of the mel bands in Hz
_OFFSET = 0.01  # is added to the mel values before the logarithm
SAMPLES = (ROWS - 1) * _STEP + _WINDOW  # number of samples of sound in a spectrogram of ROWS rows


@named("vggish")
@dataclass(frozen=True)
class Vggish(Extractor):
    """Computes approximately the features of sound in YouTube-8M: 128 values for each second."""

    feature: ClassVar[str] = "audio"
    takes: ClassVar[Literal["frames", "clips", "waveform"]] = "waveform"
    size: ClassVar[int] = 128
    bytes_range: ClassVar[Range | None] = PUBLISHED
    sampling: ClassVar[str] = sampling_rules.PUBLISHED
    rate: ClassVar[int] = RATE
    window: ClassVar[int] = SAMPLES
    hop: ClassVar[int] = RATE  # one second, as in MediaPipe's graph of YouTube-8M; VGGish's own demo takes 0.96 s

    vggish_model: str = weights("VGGish: its checkpoint, or a frozen graph (.pb)", _VGGISH)
    vggish_pca: str = weights("PCA of audio: .npz with pca_means and pca_eigen_vectors", _SOUND_PCA)

    @contextlib.contextmanager
    def open(self, weights: Mapping[str, str]) -> Iterator[Compute]:
        """See `Extractor`."""
        means, vectors = read_arrays(weights["vggish_pca"], ("pca_means", "pca_eigen_vectors"))
        if vectors.shape != (self.size, self.size) or means.size != self.size:
            shapes = f"{list(means.shape)} and {list(vectors.shape)}"
            raise UsageError(
                f"{weights['vggish_pca']}: pca_means and pca_eigen_vectors are {shapes}; expected [128] and [128, 128]."
            )
        with _open_vggish(weights["vggish_model"]) as embeddings:
            pca = weights["vggish_pca"]
            yield project(lambda sound: embeddings(log_mel(sound)), means.reshape(-1), vectors.T, pca)


def _open_vggish(path: str) -> contextlib.AbstractContextManager[Compute]:
    """Loads VGGish from a frozen graph or a checkpoint; the function maps spectrograms [N, 96, 64] to [N, 128]."""
    if path.lower().endswith(".pb"):
        return open_frozen(storage.read_bytes(path), path, SPECTROGRAM, EMBEDDING, [None, ROWS, BANDS])
    local = copies.file_copy(path)
    problem = f"{path} is neither a frozen graph (.pb) nor the checkpoint of VGGish"
    return open_graph(lambda: _build_from_checkpoint(local), problem)


def _build_from_checkpoint(path: str) -> tuple[tf.Tensor, tf.Tensor]:
    """Builds VGGish with the weights of a checkpoint as constants; the shapes of the weights give the layers' sizes.

    Source: vggish_slim.py of AudioSet (tensorflow/models). The embedding is the input of the last ReLU, as in
    MediaPipe's graph of YouTube-8M.

    Returns:
      (the placeholder of the spectrograms, float32 [N, 96, 64]; the embedding, float32 [N, 128]).
    """
    checkpoint = tf.train.load_checkpoint(path)

    def layer_weights(layer: str) -> tuple[NDArray[Any], NDArray[Any]]:
        return checkpoint.get_tensor(f"vggish/{layer}/weights"), checkpoint.get_tensor(f"vggish/{layer}/biases")

    spectrograms = tf.placeholder(tf.float32, [None, ROWS, BANDS])
    net = spectrograms[..., tf.newaxis]
    for block in _CONVOLUTIONS:
        for layer in block:
            kernel, bias = layer_weights(layer)
            net = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(net, kernel, 1, "SAME"), bias))
        net = tf.nn.max_pool2d(net, 2, 2, "SAME")
    net = tf.reshape(net, [-1, int(np.prod(net.shape[1:]))])
    for layer in _DENSE:
        matrix, bias = layer_weights(layer)
        net = tf.nn.bias_add(tf.matmul(net if layer == _DENSE[0] else tf.nn.relu(net), matrix), bias)
    return spectrograms, net


def log_mel(waveforms: NDArray[Any]) -> NDArray[np.float32]:
    """Computes logarithmic mel spectrograms, float32 [N, rows, 64]; rows = 1 + (samples - 400) // 160.

    Source: mel_features.log_mel_spectrogram of AudioSet (tensorflow/models).

    Args:
      waveforms: sound at 16 kHz, [N, samples], one channel from -1 to 1.
    """
    windows = np.lib.stride_tricks.sliding_window_view(waveforms, _WINDOW, axis=-1)[:, ::_STEP]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi / _WINDOW * np.arange(_WINDOW))
    magnitudes = np.abs(np.fft.rfft(windows * hann, _FFT))
    bank = mel_filter_bank(_FFT // 2 + 1, RATE, BANDS, _LOWEST, _HIGHEST)
    return np.asarray(np.log(magnitudes @ bank + _OFFSET), np.float32)


@functools.lru_cache(8)
def mel_filter_bank(bins: int, rate: float, bands: int, lowest: float, highest: float) -> NDArray[np.float64]:
    """The matrix [bins, bands] that maps magnitudes of a spectrum to mel bands.

    Each band is a triangle on the mel scale of HTK, 1127 ln(1 + f / 700), from the centre of the band below to the
    centre of the band above. As in MediaPipe, the bins up to `lowest`, rounded, belong to no band.

    Args:
      bins: number of bins of the spectrum, from 0 Hz to half of `rate`.
      rate: samples per second.
      lowest: the lower limit of the lowest band in Hz.
      highest: the upper limit of the highest band in Hz.
    """
    hertz = np.linspace(0.0, rate / 2, bins)
    edges = np.linspace(_mel(lowest), _mel(highest), bands + 2)
    mels, widths = _mel(hertz)[:, np.newaxis], np.diff(edges)
    rising, falling = (mels - edges[:-2]) / widths[:-1], (edges[2:] - mels) / widths[1:]
    matrix = np.maximum(0.0, np.minimum(rising, falling))
    matrix[: int(1.5 + lowest / (rate / 2 / (bins - 1)))] = 0.0
    return np.asarray(matrix)


def _mel(hertz: Any) -> Any:
    return 1127.0 * np.log1p(np.asarray(hertz) / 700.0)


ARCHIVES = (".tgz", ".tar.gz")


@contextlib.contextmanager
def open_frozen(content: bytes, path: str, feed: str, fetch: str, shape: Sequence[int | None]) -> Iterator[Compute]:
    """Loads a frozen graph; yields the function from values of the tensor `feed` to the values of the tensor `fetch`.

    Args:
      feed: name of the tensor in the graph that gets values, such as `ExpandDims:0`.
      fetch: name of the tensor in the graph whose values are computed, such as `pool_3:0`.
      shape: shape of the values of `feed`; None for a dimension of any size. A placeholder of this shape replaces
        `feed`, because the published graph declares a batch of 1.
    """

    def build() -> tuple[tf.Tensor, tf.Tensor]:
        definition = tf.GraphDef()
        definition.ParseFromString(content)
        placeholder = tf.placeholder(tf.float32, shape)
        (output,) = tf.import_graph_def(definition, {feed: placeholder}, return_elements=[fetch], name="")
        return placeholder, output

    with open_graph(build, f"{path} is not a frozen graph with the tensors {feed} and {fetch}") as compute:
        yield compute


@contextlib.contextmanager
def open_graph(build: Callable[[], tuple[tf.Tensor, tf.Tensor]], problem: str) -> Iterator[Compute]:
    """Builds a graph; yields the function from values of its input to the values of its output.

    The session uses a GPU if there is one, and allocates GPU memory as needed. The function raises `RunError` if
    TensorFlow fails, for example because memory is short.
    """

    def refusal(error: Exception) -> UsageError:
        # The text of protobuf's DecodeError says nothing of the file.
        reason = "it is damaged, or of another kind" if type(error).__name__ == "DecodeError" else first_line(error)
        return UsageError(f"{problem}: {reason[:300]}. Give the right file.")

    graph = tf.Graph()
    with graph.as_default(), refusing(refusal):
        placeholder, output = build()
    config = tf.ConfigProto(gpu_options=tf.GPUOptions(allow_growth=True))
    session = forks.new_session(graph=graph, config=config)

    def compute(values: NDArray[np.generic]) -> NDArray[np.float32]:
        try:
            return np.asarray(session.run(output, {placeholder: values}), np.float32)
        except tf.errors.OpError as error:
            raise RunError(f"the extractor failed: {first_line(error)}") from error

    with session:
        yield compute


def project(network: Compute, mean: NDArray[np.float64], matrix: NDArray[np.float64], path: str) -> Compute:
    """A function that computes a network's values, subtracts the mean, and multiplies by a matrix.

    Args:
      network: maps N inputs to values [N, D].
      mean: [D].
      matrix: [D, size].

    Returns:
      The function, from N inputs to float32 [N, size]. It raises `UsageError` if D is not that of the network.
    """

    def compute(inputs: NDArray[Any]) -> NDArray[np.float32]:
        values = network(inputs)
        if values.shape[1] != len(mean):
            raise UsageError(
                f"{path}: this PCA takes {len(mean)} values, but the network gives {values.shape[1]}; give a PCA and a "
                "network that belong together."
            )
        return np.asarray((values - mean) @ matrix, np.float32)

    return compute


def archive_member(path: str, name: str) -> bytes:
    """Reads a file of weights, which may be in an archive."""
    if not path.lower().endswith(ARCHIVES):
        return storage.read_bytes(path)

    def refusal(error: Exception) -> UsageError:
        return UsageError(f"{path} is not an archive that can be read: {first_line(error)}. Fetch it again.")

    with storage.open_read(path) as file, refusing(refusal), tarfile.open(fileobj=file) as archive:
        entries = {entry.name.rpartition("/")[2]: entry for entry in archive if entry.isfile()}
        if name not in entries:
            raise UsageError(f"{path} holds {', '.join(entries) or 'no file'}; expected {name}.")
        return archive.extractfile(entries[name]).read()  # type: ignore[union-attr]


def read_arrays(path: str, names: Sequence[str]) -> list[NDArray[np.float64]]:
    """Reads arrays as float64 from an .npz, an archive, or a folder of .npy files."""

    def refusal(error: Exception) -> UsageError:
        return UsageError(f"{path} does not hold the arrays {', '.join(names)}: {first_line(error)}.")

    try:
        with refusing(refusal):
            return list(_load_arrays(path, names))
    except RunError as error:  # of a file that is missing in the folder
        raise refusal(error) from error


def _load_arrays(path: str, names: Sequence[str]) -> Iterator[NDArray[np.float64]]:
    if path.lower().endswith(".npz"):
        with np.load(io.BytesIO(storage.read_bytes(path)), allow_pickle=False) as file:
            yield from (np.asarray(file[name], np.float64) for name in names)
        return
    is_archive = path.lower().endswith(ARCHIVES)
    for name in (f"{name}.npy" for name in names):
        content = archive_member(path, name) if is_archive else storage.read_bytes(storage.join(path, name))
        yield np.asarray(np.load(io.BytesIO(content), allow_pickle=False), np.float64)
