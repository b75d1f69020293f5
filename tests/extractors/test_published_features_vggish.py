from __future__ import annotations

import itertools
import pathlib

import numpy as np
import pytest
import scipy.signal
import stand_ins

from yt8m import extractors
from yt8m.errors import UsageError
from yt8m.extractors.published_features import EMBEDDING, SPECTROGRAM, log_mel
from yt8m.lazy import tf


def slow_vggish(spectrogram: np.ndarray, variables: dict[str, np.ndarray]) -> np.ndarray:
    """The embedding [128] of one spectrogram [96, 64], with scipy and loops."""

    def parts(layer: str) -> tuple[np.ndarray, np.ndarray]:
        return variables[f"vggish/{layer}/weights"], variables[f"vggish/{layer}/biases"]

    net = spectrogram[..., np.newaxis]
    for layer, pools in zip(stand_ins.CHANNELS, (True, True, False, True, False, True), strict=True):
        kernel, bias = parts(layer)
        maps = [
            sum(
                scipy.signal.correlate2d(net[..., depth], kernel[..., depth, channel], "same")
                for depth in range(net.shape[-1])
            )
            for channel in range(kernel.shape[-1])
        ]
        net = np.maximum(np.stack(maps, -1) + bias, 0)
        if pools:
            net = np.max([net[row::2, column::2] for row, column in itertools.product((0, 1), (0, 1))], axis=0)
    flat = net.reshape(-1)
    for layer in ("fc1/fc1_1", "fc1/fc1_2"):
        matrix, bias = parts(layer)
        flat = np.maximum(flat @ matrix + bias, 0)
    matrix, bias = parts("fc2")
    return np.asarray(flat @ matrix + bias)


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return stand_ins.write_vggish(tmp_path_factory.mktemp("vggish"))


def sound() -> np.ndarray:
    return np.random.default_rng(6).uniform(-1, 1, (3, 15600)).astype(np.float32)


def test_a_checkpoint_gives_what_numpy_and_scipy_give(weights: dict[str, str]) -> None:
    pca = np.load(weights["vggish_pca"])
    expected = []
    for spectrogram in log_mel(sound()):
        embedding = slow_vggish(spectrogram, stand_ins.vggish_variables())
        expected.append(pca["pca_eigen_vectors"].dot(embedding[:, np.newaxis] - pca["pca_means"])[:, 0])
    with extractors.create("vggish").open(weights) as compute:
        np.testing.assert_allclose(compute(sound()), expected, rtol=1e-3, atol=1e-3)


def test_a_frozen_graph_is_fetched_before_its_last_relu(weights: dict[str, str], tmp_path: pathlib.Path) -> None:
    draw = np.random.default_rng(7)
    with tf.Graph().as_default() as graph:
        with tf.name_scope("vggish/"):
            given = tf.placeholder(tf.float32, [None, 96, 64], name="input_features")
            with tf.name_scope("fc2"):
                product = tf.matmul(tf.reduce_mean(given, 1), draw.normal(size=(64, 128)).astype(np.float32))
                tf.nn.relu(tf.nn.bias_add(product, np.ones(128, np.float32), name="BiasAdd"), name="Relu")
        path = tmp_path / "vggish.pb"
        path.write_bytes(graph.as_graph_def().SerializeToString())
        with tf.Session() as session:
            embeddings = session.run(EMBEDDING, {SPECTROGRAM: log_mel(sound())})
    assert embeddings.min() < 0  # a ReLU would have removed these
    pca = np.load(weights["vggish_pca"])
    expected = (embeddings - pca["pca_means"].reshape(-1)) @ pca["pca_eigen_vectors"].T
    with extractors.create("vggish").open({**weights, "vggish_model": str(path)}) as compute:
        np.testing.assert_allclose(compute(sound()), expected, rtol=1e-4, atol=1e-4)


def test_a_pca_of_the_published_layout_is_read(weights: dict[str, str], tmp_path: pathlib.Path) -> None:
    path = str(tmp_path / "vggish_pca_params.npz")
    np.savez(path, pca_means=np.zeros(128), pca_eigen_vectors=np.eye(128))
    with extractors.create("vggish").open({**weights, "vggish_pca": path}) as compute:
        assert compute(sound()).shape == (3, 128)


def test_wrong_files_are_refused_by_name(weights: dict[str, str], tmp_path: pathlib.Path) -> None:
    other = tmp_path / "other.ckpt"
    other.write_bytes(b"nothing")
    small = tmp_path / "pca.npz"
    np.savez(small, pca_means=np.zeros(3), pca_eigen_vectors=np.zeros((3, 3)))
    for changed, told in (
        ({"vggish_model": str(other)}, r"other\.ckpt .*frozen graph [(]\.pb[)] .*VGGish"),
        ({"vggish_pca": str(small)}, "are .3. and .3, 3.; expected"),
    ):
        with pytest.raises(UsageError, match=told), extractors.create("vggish").open({**weights, **changed}):
            pass
