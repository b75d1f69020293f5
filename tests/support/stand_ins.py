"""Small stand-ins for the published weights of extractors, with the published names of nodes, files and arrays.

A test cannot fetch the published weights. The stand-ins are loaded by the code that loads the published weights.
"""

from __future__ import annotations

import io
import pathlib
import tarfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from yt8m.lazy import tf
from yt8m.records.shards import field, varint

POOLED = 2048  # values of Inception-v3 before the PCA
CHANNELS = {"conv1": 2, "conv2": 3, "conv3/conv3_1": 4, "conv3/conv3_2": 2, "conv4/conv4_1": 3, "conv4/conv4_2": 2}


def inception_graph() -> bytes:
    """A frozen graph that takes one JPEG or a batch of pictures, as the graph published on 2015-12-05 does."""
    draw = np.random.default_rng(1)
    with tf.Graph().as_default() as graph:
        contents = tf.placeholder(tf.string, [], name="DecodeJpeg/contents")
        picture = tf.image.decode_jpeg(contents, channels=3, name="DecodeJpeg")
        pictures = tf.expand_dims(tf.cast(picture, tf.float32, name="Cast"), 0, name="ExpandDims")
        resized = tf.raw_ops.ResizeBilinear(images=pictures, size=[29, 29], name="ResizeBilinear")
        scaled = tf.multiply(tf.subtract(resized, 128.0, name="Sub"), 1 / 128, name="Mul")
        net = tf.nn.relu(tf.nn.conv2d(scaled, draw.normal(size=(5, 5, 3, 16)).astype(np.float32) / 5, 4, "VALID"))
        net = tf.nn.relu(tf.nn.conv2d(net, draw.normal(size=(1, 1, 16, POOLED)).astype(np.float32) / 4, 1, "VALID"))
        pooled = tf.nn.avg_pool2d(net, 7, 1, "VALID", name="pool_3")
        tf.reshape(pooled, [1, POOLED], name="pool_3/_reshape")
        return bytes(graph.as_graph_def().SerializeToString())


def picture_pca() -> dict[str, np.ndarray]:
    """The arrays mean, eigenvals and eigenvecs of a PCA of 2048 values.

    The eigenvectors are the rows of a Householder matrix, so they are orthonormal.
    """
    draw = np.random.default_rng(2)
    axis = draw.normal(size=(POOLED, 1))
    vectors = np.eye(POOLED) - 2 * axis @ axis.T / (axis**2).sum()
    values = np.sort(draw.random(POOLED))[::-1] + 0.01
    return {
        "mean": draw.normal(size=POOLED).astype(np.float32),
        "eigenvals": values.astype(np.float32),
        "eigenvecs": vectors.astype(np.float32),
    }


def write_archive(path: pathlib.Path, files: dict[str, bytes]) -> str:
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return str(path)


def as_npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def write_inception(folder: pathlib.Path) -> dict[str, str]:
    """Writes an archive with the graph, and the PCA as .npz, which is written faster; returns {field: path}."""
    graph = write_archive(
        folder / "inception-2015-12-05.tgz", {"classify_image_graph_def.pb": inception_graph(), "LICENSE": b"none"}
    )
    pca = str(folder / "yt8m_pca.npz")
    np.savez(pca, **picture_pca())
    return {"inception_graph": graph, "inception_pca": pca}


def vggish_variables() -> dict[str, np.ndarray]:
    """The variables of VGGish, but with few channels, and random values."""
    draw, depth, made = np.random.default_rng(3), 1, {}
    for layer, channels in CHANNELS.items():
        made[f"vggish/{layer}/weights"] = draw.normal(size=(3, 3, depth, channels)) * 0.3
        made[f"vggish/{layer}/biases"] = draw.normal(size=channels) * 0.1
        depth = channels
    width = 6 * 4 * depth
    for layer, size in (("fc1/fc1_1", 7), ("fc1/fc1_2", 5), ("fc2", 128)):
        made[f"vggish/{layer}/weights"] = draw.normal(size=(width, size)) * 0.3
        made[f"vggish/{layer}/biases"] = draw.normal(size=size) * 0.1
        width = size
    return {name: value.astype(np.float32) for name, value in made.items()}


def write_vggish_checkpoint(folder: pathlib.Path) -> str:
    """Writes a checkpoint of version 1, which is one file, as the published checkpoint; returns its path."""
    with tf.Graph().as_default(), tf.Session() as session:
        variables = [tf.get_variable(name, initializer=value) for name, value in vggish_variables().items()]
        session.run(tf.global_variables_initializer())
        saver = tf.train.Saver(variables, write_version=tf.train.SaverDef.V1)
        return str(saver.save(session, str(folder / "vggish_model.ckpt"), write_meta_graph=False, write_state=False))


def write_vggish(folder: pathlib.Path) -> dict[str, str]:
    """Writes the checkpoint and a PCA; returns {field: path}."""
    draw, pca = np.random.default_rng(4), str(folder / "vggish_pca_params.npz")
    vectors, _ = np.linalg.qr(draw.normal(size=(128, 128)))
    np.savez(pca, pca_means=draw.normal(size=(128, 1)), pca_eigen_vectors=vectors)
    return {"vggish_model": write_vggish_checkpoint(folder), "vggish_pca": pca}


PROJECTION = np.random.default_rng(5).normal(size=(3, 6)).astype(np.float32)


def write_onnx(
    path: pathlib.Path, batch: int = 0, kind: int = 1, weights: str = "", axes: Sequence[Any] = (3, "H", "W")
) -> str:
    """Writes an ONNX model that computes the mean colour of pictures [N, 3, H, W] or of clips, times PROJECTION.

    Args:
      path: the file to write.
      batch: the only N that the model takes; 0 for any N.
      kind: ONNX's number of the type of the input; 1 for float32.
      weights: name of a file in the same folder that gets PROJECTION ("external data"); by default the model has it.
      axes: the sizes of the axes of the input after N; the axis of size 3 is that of the colours.

    Returns:
      `path` as text.
    """
    place = list(axes).index(3) + 1
    order = [0, place, *(axis for axis in range(1, len(axes) + 1) if axis != place)]
    nodes = [
        _node("Transpose", ["pictures"], "colours_first") + field(5, _integers("perm", order)),
        _node("GlobalAveragePool", ["colours_first"], "pooled"),
        _node("Flatten", ["pooled"], "flat"),
        _node("MatMul", ["flat", "projection"], "feature"),
    ]
    dims = b"".join(_number(1, size) for size in PROJECTION.shape)
    values = field(9, PROJECTION.tobytes())
    if weights:
        (path.parent / weights).write_bytes(PROJECTION.tobytes())
        values = field(13, field(1, b"location") + field(2, weights.encode())) + _number(14, 1)
    tensor = dims + _number(2, 1) + field(8, b"projection") + values
    sizes: list[Any] = [batch or "N", *axes]
    graph = (
        b"".join(field(1, node) for node in nodes)
        + field(2, b"colours")
        + field(5, tensor)
        + field(11, _value("pictures", sizes, kind))
        + field(12, _value("feature", [batch or "N", PROJECTION.shape[1]], kind))
    )
    model = _number(1, 8) + field(8, field(1, b"") + _number(2, 13)) + field(7, graph)
    path.write_bytes(model)
    return str(path)


def _number(number: int, value: int) -> bytes:
    return varint(number << 3) + varint(value)


def _node(kind: str, inputs: Sequence[str], output: str) -> bytes:
    names = b"".join(field(1, name.encode()) for name in inputs)
    return names + field(2, output.encode()) + field(4, kind.encode())


def _integers(name: str, values: Sequence[int]) -> bytes:
    return field(1, name.encode()) + b"".join(_number(8, value) for value in values) + _number(20, 7)


def _value(name: str, sizes: Sequence[Any], kind: int) -> bytes:
    dims = [_number(1, size) if isinstance(size, int) else field(2, size.encode()) for size in sizes]
    tensor = _number(1, kind) + field(2, b"".join(field(1, one) for one in dims))
    return field(1, name.encode()) + field(2, field(1, tensor))


def write_saved_model(folder: pathlib.Path, dtype: Any = None, axes: Sequence[Any] = (None, None)) -> str:
    """Writes a SavedModel that computes the mean colour of pictures, uint8 [N, H, W, 3], or clips, times PROJECTION."""
    with tf.Graph().as_default(), tf.Session() as session:
        pictures = tf.placeholder(dtype or tf.uint8, [None, *axes, 3])
        mean = tf.reduce_mean(tf.cast(pictures, tf.float32), axis=list(range(1, len(axes) + 1)))
        feature = tf.matmul(mean, tf.constant(PROJECTION))
        tf.saved_model.simple_save(session, str(folder), {"pictures": pictures}, {"feature": feature})
    return str(folder)
