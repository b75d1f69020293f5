"""Exports a checkpoint as one ONNX file, which is compared with TensorFlow's graph before it gets its name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m import formats, storage
from yt8m.config import data_fit, run_dir
from yt8m.config.train_config import DataConfig
from yt8m.errors import RunError, UsageError
from yt8m.export import onnx_conversion
from yt8m.export.onnx_conversion import graphs_of
from yt8m.export.onnx_file import ABOUT, FRAMES, NUM_FRAMES, SCORES, OnnxFile
from yt8m.export.saved_model import masked_input
from yt8m.export.small_weights import pack, restored
from yt8m.lazy import tf
from yt8m.readers import dequantize
from yt8m.records import data_format, vocabulary
from yt8m.records.data_format import DataFormat
from yt8m.records.vocabulary import Vocabulary
from yt8m.runner import checkpoints
from yt8m.video.modeler import VideoModeler

TOLERANCE = 1e-5  # largest difference of a score
_BATCHES = ((1,), (300, 1, 0))  # numbers of frames of the videos on which the two are compared

Describe = Callable[[OnnxFile, int], Mapping[str, str]]


def export_onnx(
    path: str,
    checkpoint: str,
    data: DataConfig,
    modeler: VideoModeler,
    *,
    moving_average_decay: float = 0.0,
    weights: str = "float32",
    input_type: str = "float32",
    names: Vocabulary | None = None,
    describe: Describe | None = None,
    is_own: bool = False,
) -> int:
    """Writes the ONNX file `path` of the weights in `checkpoint`; whole or not at all. `onnx_file` describes it.

    Args:
      path: the file, local or gs://.
      checkpoint: path of a checkpoint of the model.
      data: what the model was trained on.
      modeler: the model.
      moving_average_decay: above 0 if the run kept averages, which are then exported.
      weights: the type to store weights in: float32 or int8.
      input_type: what `frames` holds: float32, or uint8 if all features are bytes in the records.
      names: the model's own vocabulary.
      describe: called with the model and the number of its parameters; gives further texts for the metadata, by name.
      is_own: whether this user trained the model here. Then the file is remembered as this user's own.

    Returns:
      The size of the file in bytes.

    Raises:
      UsageError: tf2onnx is not installed, a reader of the user's own reads the records, or features are not bytes.
      RunError: the model cannot be converted, or the converted one gives other scores.
    """
    takes = data_fit.format_of(data)
    _check(takes, data.reader, input_type)
    about = {
        "version": formats.ONNX,
        "model": "" if modeler.model is None else type(modeler.model).__name__,
        "format": takes.as_json(),
        "extractors": data.extractors,
        "step": max(checkpoints.step_of(checkpoint), 0),
        "is_averaged": moving_average_decay > 0,
        "weights": weights,
    }

    def build() -> None:
        frames = tf.placeholder(input_type, [None, None, sum(takes.sizes().values())], name=FRAMES)
        num_frames = tf.placeholder(tf.int32, [None], name=NUM_FRAMES)
        floats = _dequantized(frames, takes) if input_type == "uint8" else frames
        predictions = modeler.predict_raw(*masked_input(floats, num_frames, data.frame_features)).predictions
        tf.identity(tf.cast(predictions, tf.float32), name=SCORES)

    texts = {ABOUT: json.dumps(about)} | ({vocabulary.NAME: vocabulary.content_of(names).decode()} if names else {})
    with onnx_conversion.plain_loops(), restored(build, checkpoint, moving_average_decay) as model:
        content = onnx_conversion.converted(model.session, (FRAMES, NUM_FRAMES), SCORES)
        exact = OnnxFile(path, onnx_conversion.with_texts(content, texts))
        _refuse_other_scores(model.session, exact, takes, input_type)
    if weights == "int8":
        store_as_bytes(content)
    if describe is not None:
        texts |= describe(OnnxFile(path, onnx_conversion.with_texts(content, texts)), model.parameters)
    content = onnx_conversion.with_texts(content, texts)
    storage.write(path, content)
    if is_own:
        run_dir.note_own(path, content)
    return len(content)


def _check(takes: DataFormat, own_reader: str, input_type: str) -> None:
    if own_reader:
        raise UsageError(
            f"the run reads records by {own_reader}, which an ONNX file cannot hold: export a SavedModel, which can."
        )
    floats = [feature.name for feature in takes.features if feature.range is None]
    if input_type == "uint8" and floats:
        raise UsageError(f"--input_type=uint8: the records hold {', '.join(floats)} as floats; leave the flag out.")


def _dequantized(frames: tf.Tensor, takes: DataFormat) -> tf.Tensor:
    """float32 [B, T, D] of bytes, each feature by its own range."""
    features = tf.split(frames, list(takes.sizes().values()), axis=-1)
    ranges = [feature.range or data_format.PUBLISHED for feature in takes.features]
    return tf.concat(
        [dequantize(feature_values, high, low) for feature_values, (low, high) in zip(features, ranges, strict=True)],
        axis=-1,
    )


def _refuse_other_scores(session: tf.Session, exported: OnnxFile, takes: DataFormat, input_type: str) -> None:
    """Compares both on videos drawn at random, of one frame and of several lengths."""
    draw = np.random.default_rng(0)
    for lengths in _BATCHES:
        frames, num_frames = _drawn(draw, lengths, takes, input_type), np.array(lengths, np.int32)
        expected = session.run(f"{SCORES}:0", {f"{FRAMES}:0": frames, f"{NUM_FRAMES}:0": num_frames})
        difference = float(np.abs(exported.scores_of_frames(frames, num_frames) - expected).max())
        if not difference <= TOLERANCE:  # also if it is NaN
            raise RunError(
                f"the ONNX file was not written: its scores differ from TensorFlow's by {difference:.1e}, and at most "
                f"{TOLERANCE:.0e} is allowed. Export a SavedModel instead."
            )


def _drawn(draw: np.random.Generator, lengths: Sequence[int], takes: DataFormat, input_type: str) -> NDArray[Any]:
    """The frames of random videos, [B, T, D]; the padding is drawn too, because the model must ignore it."""
    shape, features = (len(lengths), max(lengths)), []
    for feature in takes.features:
        values = draw.integers(0, 256, (*shape, feature.size), np.uint8)
        if input_type == "float32":
            values = data_format.dequantized(values, feature.range or data_format.PUBLISHED)
        features.append(values)
    return np.concatenate(features, axis=-1)


def store_as_bytes(model: Any) -> None:
    """Replaces each weight matrix of the ONNX model by one byte a weight and nodes that compute the floats.

    onnxruntime runs these nodes once, when it loads the file: afterwards the model is as fast as with floats. The
    integer products of `quantize_dynamic` also round the other operand of each product, which costs accuracy.
    """
    for graph in graphs_of(model):
        _constants_to_initializers(graph)
        initializers, nodes = list[Any](), list[Any]()
        for weights in graph.initializer:
            of_weights, computing = _packed(weights)
            initializers += of_weights
            nodes += computing
        nodes += graph.node
        del graph.initializer[:], graph.node[:]
        graph.initializer.extend(initializers)
        graph.node.extend(nodes)


def _constants_to_initializers(graph: Any) -> None:
    for node in [node for node in graph.node if node.op_type == "Constant" and node.attribute[0].name == "value"]:
        node.attribute[0].t.name = node.output[0]
        graph.initializer.append(node.attribute[0].t)
        graph.node.remove(node)


def _packed(weights: Any) -> tuple[list[Any], list[Any]]:
    """The initializers and nodes in place of one initializer; itself if bytes are not fewer."""
    from onnx import helper, numpy_helper

    value = numpy_helper.to_array(weights)
    packed = pack(value, "int8")
    stored = [array for array in packed if array is not None]
    if packed.step is None or sum(array.nbytes for array in stored) >= value.nbytes:
        return [weights], []
    codes, minimum, step, floats, product = (
        f"{weights.name}/{name}" for name in ("codes", "minimum", "step", "floats", "product")
    )
    initializers = [
        numpy_helper.from_array(np.asarray(array), name)
        for array, name in zip(stored, (codes, minimum, step), strict=True)
    ]
    return initializers, [
        helper.make_node("Cast", [codes], [floats], to=weights.data_type),
        helper.make_node("Mul", [floats, step], [product]),
        helper.make_node("Add", [product, minimum], [weights.name]),
    ]
