from __future__ import annotations

import pathlib

import numpy as np
import pytest
import stand_ins
from golden_data import real_data

from yt8m import extractors
from yt8m.errors import UsageError
from yt8m.extractors.published_features import project, read_arrays, whitening
from yt8m.lazy import tf
from yt8m.records import data_format


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return stand_ins.write_inception(tmp_path_factory.mktemp("inception"))


def test_a_batch_gives_what_the_published_program_gives_one_picture_at_a_time(weights: dict[str, str]) -> None:
    """The published program feeds one uint8 picture to DecodeJpeg:0, and fetches pool_3/_reshape:0."""
    pictures = np.random.default_rng(0).integers(0, 256, (4, 37, 61, 3), np.uint8)
    pca = stand_ins.picture_pca()
    definition = tf.GraphDef()
    definition.ParseFromString(stand_ins.inception_graph())
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        tf.import_graph_def(definition, name="")
        pooled = [session.run("pool_3/_reshape:0", {"DecodeJpeg:0": picture})[0] for picture in pictures]
    expected = []
    for values in pooled:
        centred = values.astype(np.float64) - pca["mean"]
        components = centred.dot(pca["eigenvecs"].T[:, :1024].astype(np.float64))
        expected.append(components / np.sqrt(pca["eigenvals"][:1024].astype(np.float64) + 1e-4))
    with extractors.create("inception").open(weights) as compute:
        np.testing.assert_allclose(compute(pictures), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.heavy
def test_the_files_may_be_a_graph_a_folder_or_the_published_archives(
    weights: dict[str, str], tmp_path: pathlib.Path
) -> None:
    graph = tmp_path / "graph.pb"
    graph.write_bytes(stand_ins.inception_graph())
    arrays = {f"{name}.npy": stand_ins.as_npy(value) for name, value in stand_ins.picture_pca().items()}
    for name, content in arrays.items():
        (tmp_path / name).write_bytes(content)
    archive = stand_ins.write_archive(tmp_path / "yt8m_pca.tgz", {f"pca/{name}": arrays[name] for name in arrays})
    pictures = np.random.default_rng(1).integers(0, 256, (2, 20, 20, 3), np.uint8)
    found = []
    for given in (weights, {"inception_graph": str(graph), "inception_pca": str(tmp_path)}):
        with extractors.create("inception").open(given) as compute:
            found.append(compute(pictures))
    np.testing.assert_array_equal(*found)
    for one, other in zip(
        read_arrays(archive, ("mean", "eigenvals", "eigenvecs")), stand_ins.picture_pca().values(), strict=True
    ):
        np.testing.assert_array_equal(one, other)


def test_wrong_files_are_refused_by_name(weights: dict[str, str], tmp_path: pathlib.Path) -> None:
    other = tmp_path / "other.pb"
    other.write_bytes(b"no graph at all")
    empty = tmp_path / "empty.pb"
    empty.write_bytes(b"")
    archive = stand_ins.write_archive(tmp_path / "other.tgz", {"readme.txt": b"x"})
    cut = tmp_path / "cut.tgz"
    cut.write_bytes(pathlib.Path(weights["inception_graph"]).read_bytes()[:2000])
    small = tmp_path / "small.npz"
    np.savez(small, mean=np.zeros(4), eigenvals=np.zeros(4), eigenvecs=np.zeros((4, 4)))
    for changed, told in (
        ({"inception_graph": str(other)}, r"other\.pb is not .*frozen graph"),
        ({"inception_graph": str(empty)}, r"empty\.pb is not .*frozen graph .*ExpandDims:0 and pool_3:0"),
        ({"inception_graph": archive}, "holds readme.txt; expected classify_image_graph_def.pb"),
        ({"inception_graph": str(cut)}, "not an archive"),
        ({"inception_pca": str(small)}, "are .4., .4., .4, 4.; expected"),
        ({"inception_pca": str(other)}, "arrays mean, eigenvals, eigenvecs"),
    ):
        with pytest.raises(UsageError, match=told), extractors.create("inception").open({**weights, **changed}):
            pass


def test_the_whitening_agrees_with_a_real_frame_in_length(tmp_path: pathlib.Path) -> None:
    """The published eigenvectors are not here, but a rotation keeps lengths: the components, scaled back, are as long.

    The 1024 components hold nearly all of the frame's distance from the mean.
    """
    frame = np.load(real_data("sports1m_frame.npz"))
    mean, values = (np.load(real_data(f"pca_{name}.npy")).reshape(-1) for name in ("mean", "eigenvals"))
    kept = (frame["pca"] ** 2 * (values[:1024] + 1e-4)).sum()
    whole = ((frame["original"] - mean) ** 2).sum()
    assert 0.9 * whole < kept < 1.001 * whole
    np.savez(tmp_path / "pca.npz", mean=mean, eigenvals=values, eigenvecs=np.eye(2048))
    compute = project(lambda values: values, *whitening(str(tmp_path / "pca.npz"), 1024), "pca.npz")
    found = compute(frame["original"][np.newaxis].astype(np.float32))[0]
    expected = (frame["original"] - mean)[:1024] / np.sqrt(values[:1024] + 1e-4)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_bytes_stand_for_values_from_minus_two_to_two() -> None:
    assert extractors.get("inception").bytes_range == extractors.get("vggish").bytes_range == (-2.0, 2.0)
    assert extractors.get("onnx:x").bytes_range is None
    values = np.array([-3.0, -2.0, 0.0, 2.0, 3.0])
    stored = data_format.quantized(values, (-2.0, 2.0))
    assert stored[[0, 1, 3, 4]].tolist() == [0, 0, 255, 255]
    assert abs(float(data_format.dequantized(stored, (-2.0, 2.0))[2])) <= 2 / 255
