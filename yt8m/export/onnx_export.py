"""Exports a checkpoint as one ONNX file. tf2onnx converts the graph.

The file is written only if its scores on random videos equal those of TensorFlow's graph, up to `TOLERANCE`.
"""

from __future__ import annotations

import collections
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from yt8m import deploy, formats, storage
from yt8m.config import run_dir
from yt8m.config.data_config import DataConfig
from yt8m.config.data_fit import Takes
from yt8m.errors import RunError, UsageError, first_line, missing_extra
from yt8m.export.onnx_check import CHECKSUM, FRAMES, NUM_FRAMES, SCORES, compute_checksum
from yt8m.export.onnx_file import ABOUT, WRITTEN_TEXTS, OnnxFile
from yt8m.export.saved_model import ModelFacts, masked_input
from yt8m.export.small_weights import pack, restored
from yt8m.lazy import tf
from yt8m.numerics import control_flow
from yt8m.readers import dequantize
from yt8m.records import data_format, vocabulary
from yt8m.records.data_format import DataFormat
from yt8m.runner import checkpoints
from yt8m.video.modeler import VideoModeler

TOLERANCE = 1e-5  # largest difference allowed between a score of the ONNX file and of TensorFlow's graph
_BATCHES = ((1,), (300, 1, 0))  # the batches of random videos: for each video, its number of frames
OPSET = 13  # the newest version of ONNX's operators that onnxruntime's reduced package for phones has
# This pass of tf2onnx 1.17 is left out. It gives a wrong shape if a shape is computed from the shape of another tensor,
# as in TransformerModel.
_WRONG_OPTIMIZER = "reshape_optimizer"
_LARGEST_FILE = 2**31 - 1  # largest number of bytes of a protobuf message, which an ONNX file is

# A function that is called with the exported model and its number of parameters, and returns {name: text} for the
# metadata of the file.
Describe = Callable[[OnnxFile, int], Mapping[str, str]]


def export_onnx(
    path: str,
    checkpoint: str,
    data: DataConfig,
    modeler: VideoModeler,
    facts: ModelFacts = ModelFacts(),  # noqa: B008 - it is never changed
    *,
    input_type: str = "float32",
    describe: Describe | None = None,
) -> int:
    """Writes the model with the weights in `checkpoint` as an ONNX file (see `onnx_file`), completely or not at all.

    Args:
      path: the file, local or gs://.
      facts: what the file keeps of the run, besides the extractors; `weights` may be float32 or int8.
      input_type: type of the input `frames`: float32, or uint8 if the records store all features as bytes.

    Returns:
      The size of the file in bytes.
    """
    input_format = Takes(data).format
    _check_input(input_format, data.reader, input_type)
    about = {
        "version": formats.ONNX,
        "model": "" if modeler.model is None else type(modeler.model).__name__,
        "format": input_format.as_json(),
        "extractors": data.extractors,
        "step": max(checkpoints.step_of(checkpoint), 0),
        "is_averaged": facts.moving_average_decay > 0,
        "weights": facts.weights,
        "has_probabilities": False,  # until the scores are known
    }

    def build() -> None:
        frames = tf.placeholder(input_type, [None, None, sum(input_format.sizes().values())], name=FRAMES)
        num_frames = tf.placeholder(tf.int32, [None], name=NUM_FRAMES)
        floats = _dequantize_frames(frames, input_format) if input_type == "uint8" else frames
        predictions = modeler.predict_raw(*masked_input(floats, num_frames, data.frame_features)).predictions
        tf.identity(tf.cast(predictions, tf.float32), name=SCORES)

    texts = {ABOUT: json.dumps(about)} | (
        {vocabulary.NAME: vocabulary.content_of(facts.names).decode()} if facts.names else {}
    )
    with plain_loops(), restored(build, checkpoint, facts.moving_average_decay) as model:
        onnx_model = convert(model.session, (FRAMES, NUM_FRAMES), SCORES)
        exact_file = OnnxFile(path, _serialize_with_texts(onnx_model, texts))
        low, high = _refuse_other_scores(model.session, exact_file, input_format, input_type)
    about["has_probabilities"] = low >= 0 and high <= 1
    if not about["has_probabilities"]:
        logging.warning(f"the model gives scores from {low:.3g} to {high:.3g}, which are no probabilities (0 to 1)")
    texts[ABOUT] = json.dumps(about)
    if facts.weights == "int8":
        store_as_bytes(onnx_model)
    if describe is not None:
        texts |= describe(OnnxFile(path, _serialize_with_texts(onnx_model, texts)), model.parameters)
    content = _serialize_with_texts(onnx_model, texts)
    storage.write(path, content)
    if facts.is_own:
        run_dir.note_own(path, content)
    return len(content)


def _serialize_with_texts(model: Any, texts: Mapping[str, str]) -> bytes:
    """Replaces the metadata of an ONNX model by `texts` and a checksum; returns the content of its file."""
    del model.metadata_props[:]
    for name, text in texts.items():
        model.metadata_props.add(key=name, value=text)
    model.metadata_props.add(key=CHECKSUM, value=compute_checksum(model.SerializeToString(), WRITTEN_TEXTS))
    return bytes(model.SerializeToString())


def _check_input(input_format: DataFormat, custom_reader: str, input_type: str) -> None:
    """Raises `UsageError` if an ONNX file cannot take the data of the run, or cannot take them as `input_type`."""
    if custom_reader:
        raise UsageError(
            f"the run reads records with {custom_reader}, which an ONNX file cannot hold: export a SavedModel instead."
        )
    floats = [feature.name for feature in input_format.features if feature.range is None]
    if input_type == "uint8" and floats:
        raise UsageError(f"--input_type=uint8: the records hold {', '.join(floats)} as floats; leave the flag out.")


def _dequantize_frames(frames: tf.Tensor, input_format: DataFormat) -> tf.Tensor:
    """Dequantises frames, uint8 [B, T, D], to float32; each feature has its own range."""
    features = tf.split(frames, list(input_format.sizes().values()), axis=-1)
    ranges = [feature.range or data_format.PUBLISHED for feature in input_format.features]
    return tf.concat(
        [dequantize(feature_values, high, low) for feature_values, (low, high) in zip(features, ranges, strict=True)],
        axis=-1,
    )


def _refuse_other_scores(
    session: tf.Session, exported: OnnxFile, input_format: DataFormat, input_type: str
) -> tuple[float, float]:
    """Compares the scores of the file and of the session on random videos of several lengths."""
    generator, lows, highs = np.random.default_rng(0), list[float](), list[float]()
    for lengths in _BATCHES:
        frames = _draw_frames(generator, lengths, input_format, input_type)
        num_frames = np.array(lengths, np.int32)
        expected = session.run(f"{SCORES}:0", {f"{FRAMES}:0": frames, f"{NUM_FRAMES}:0": num_frames})
        difference = float(np.abs(exported.scores_of_frames(frames, num_frames) - expected).max())
        if not difference <= TOLERANCE:  # also True if the difference is NaN
            raise RunError(
                f"the ONNX file was not written: its scores differ from TensorFlow's by {difference:.1e}, more than "
                f"{TOLERANCE:.0e}. Export a SavedModel instead."
            )
        lows.append(float(expected.min()))
        highs.append(float(expected.max()))
    return min(lows), max(highs)


def _draw_frames(
    generator: np.random.Generator, lengths: Sequence[int], input_format: DataFormat, input_type: str
) -> NDArray[Any]:
    """Draws the frames of random videos, [B, T, D]. Padding is random too, because the model must ignore it."""
    shape, features = (len(lengths), max(lengths)), []
    for feature in input_format.features:
        values = generator.integers(0, 256, (*shape, feature.size), np.uint8)
        if input_type == "float32":
            values = data_format.dequantized(values, feature.range or data_format.PUBLISHED)
        features.append(values)
    return np.concatenate(features, axis=-1)


def store_as_bytes(model: Any) -> None:
    """Changes an ONNX model: stores each weight matrix as one byte per weight, with nodes that compute the floats.

    This is weight-only quantisation, see `small_weights.pack`. onnxruntime runs these nodes once, when it loads the
    file, so the model is as fast as with floats. onnxruntime's own `quantize_dynamic` is not used: it computes products
    of integers, for which the activations are rounded as well.
    """
    for graph in graphs_of(model):
        _constants_to_initializers(graph)
        initializers, nodes = list[Any](), list[Any]()
        for weights in graph.initializer:
            packed_weights, unpacking_nodes = _pack_weights(weights)
            initializers += packed_weights
            nodes += unpacking_nodes
        nodes += graph.node
        del graph.initializer[:], graph.node[:]
        graph.initializer.extend(initializers)
        graph.node.extend(nodes)


def _constants_to_initializers(graph: Any) -> None:
    """Turns the Constant nodes of an ONNX graph into initializers, where `store_as_bytes` looks for weights."""
    for node in [node for node in graph.node if node.op_type == "Constant" and node.attribute[0].name == "value"]:
        node.attribute[0].t.name = node.output[0]
        graph.initializer.append(node.attribute[0].t)
        graph.node.remove(node)


def _pack_weights(weights: Any) -> tuple[list[Any], list[Any]]:
    """(initializers with the stored bytes, nodes that compute the floats from them), which replace `weights`.

    If the stored form would not be smaller, this is ([`weights`], []).
    """
    from onnx import helper, numpy_helper

    value = numpy_helper.to_array(weights)
    packed = pack(value, "int8")
    arrays = [array for array in packed if array is not None]
    if packed.step is None or sum(array.nbytes for array in arrays) >= value.nbytes:
        return [weights], []
    codes, minimum, step, floats, product = (
        f"{weights.name}/{name}" for name in ("codes", "minimum", "step", "floats", "product")
    )
    initializers = [
        numpy_helper.from_array(np.asarray(array), name)
        for array, name in zip(arrays, (codes, minimum, step), strict=True)
    ]
    return initializers, [
        helper.make_node("Cast", [codes], [floats], to=weights.data_type),
        helper.make_node("Mul", [floats, step], [product]),
        helper.make_node("Add", [product, minimum], [weights.name]),
    ]


def plain_loops() -> AbstractContextManager[None]:
    """A context in which TensorFlow builds loops of TensorFlow 1's operations: tf2onnx converts them to Loop.

    tf2onnx cannot convert the tensor lists of TensorFlow 2's loops. ONNX's LSTM and GRU nodes would be little faster:
    16 videos of 300 frames took 1.45 s of CPU time in LstmModel's Loops and 1.6 s in LSTM nodes of these sizes, and 1.3
    to 1.4 s in GruModel's Loops and 1.0 to 1.1 s in GRU nodes
    (`python -m pytest -s -m heavy tests/export/test_onnx_export_loops.py`).
    """
    return control_flow.of_version_1()


def convert(session: tf.Session, inputs: Iterable[str], output: str) -> Any:
    """Converts a session's graph from `inputs` to `output` to an ONNX model, with the weights as constants."""
    optimizer, tfonnx = _import_tf2onnx()
    deploy.count_gpus()  # tf2onnx makes TensorFlow look for GPUs; the first search logs errors if there are none
    renamed = {f"{name}:0": name for name in (*inputs, output)}
    frozen = tf.graph_util.convert_variables_to_constants(session, session.graph.as_graph_def(), [output])
    if frozen.ByteSize() > _LARGEST_FILE:
        raise RunError("the model cannot be written as ONNX: an ONNX file holds at most 2 GB, and the model is larger.")
    try:
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(frozen, name="")
            del frozen  # a copy of the weights
            onnx_graph = tfonnx.process_tf_graph(
                graph,
                opset=OPSET,
                input_names=[f"{name}:0" for name in inputs],
                output_names=[f"{output}:0"],
                tensors_to_rename=renamed,
            )
            passes = dict(optimizer._get_optimizers())
            passes.pop(_WRONG_OPTIMIZER, None)
            # After each pass, tf2onnx would write the attributes of every node, weights included, into the node's
            # protobuf message again. The memory of a message keeps all former values, which are 20 copies of the
            # weights. Only `make_model` reads the messages, so until then nothing is written.
            onnx_graph.update_proto = lambda: None
            optimized = optimizer.optimize_graph(onnx_graph, catch_errors=False, optimizers=passes)
            del onnx_graph.update_proto
            model = optimized.make_model("yt8m")
    except Exception as error:  # tf2onnx raises errors of many types
        raise RunError(f"the model cannot be written as ONNX: tf2onnx fails: {first_line(error)}") from error
    _refuse_unknown(model)
    _make_sigmoids_exact(model.graph)
    return model


def _import_tf2onnx() -> tuple[Any, Any]:
    """Imports tf2onnx's modules (optimizer, tfonnx); raises `UsageError` if tf2onnx is not installed."""
    try:
        from tf2onnx import optimizer, tfonnx
    except ImportError as error:
        raise missing_extra("--format=onnx", "tf2onnx with onnx and onnxruntime", "onnx-export") from error
    logging.getLogger("tf2onnx").setLevel(logging.CRITICAL)
    return optimizer, tfonnx


def graphs_of(model: Any) -> Iterator[Any]:
    """Yields the graph of an ONNX model, and the graphs inside its nodes, such as the bodies of loops."""
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        yield graph
        graphs += [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]


def operators(model: Any) -> Mapping[tuple[str, str], int]:
    """Counts the nodes of an ONNX model and of the bodies of its loops: {(domain, name of the operator): count}."""
    return collections.Counter((node.domain, node.op_type) for graph in graphs_of(model) for node in graph.node)


def _refuse_unknown(model: Any) -> None:
    """Raises `RunError` if tf2onnx left operations of TensorFlow in the model, because it cannot convert them."""
    from onnx import defs

    unknown = [name for domain, name in operators(model) if not defs.has(name, domain=domain)]
    if unknown:
        raise RunError(
            f"the model cannot be written as ONNX: tf2onnx cannot convert TensorFlow's {', '.join(sorted(unknown))}."
        )


def _make_sigmoids_exact(graph: Any) -> None:
    """Replaces each Sigmoid node outside of loops by nodes that compute 1 / (1 + exp(-x)).

    onnxruntime's Sigmoid has an absolute error of 1e-7, which is large relative to small values. NeXtVLAD weights
    frames by sigmoids, and normalises the weighted sum to length 1. If all weights of a video were small, its scores
    differed by up to 9e-4.
    """
    from onnx import helper, numpy_helper

    graph.initializer.append(numpy_helper.from_array(np.float32(1), "sigmoid_one"))
    nodes = list[Any]()
    for node in graph.node:
        if node.op_type != "Sigmoid":
            nodes.append(node)
            continue
        value, result = node.input[0], node.output[0]
        steps = [f"{result}/{name}" for name in ("negative", "power", "sum")]
        nodes.append(helper.make_node("Neg", [value], steps[:1]))
        nodes.append(helper.make_node("Exp", steps[:1], steps[1:2]))
        nodes.append(helper.make_node("Add", [steps[1], "sigmoid_one"], steps[2:]))
        nodes.append(helper.make_node("Reciprocal", steps[2:], [result]))
    del graph.node[:]
    graph.node.extend(nodes)
