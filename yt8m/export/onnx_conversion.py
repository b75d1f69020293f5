"""Converts the graph of a session to ONNX by tf2onnx."""

from __future__ import annotations

import collections
import contextlib
import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from yt8m.errors import RunError, first_line, missing_extra
from yt8m.lazy import tf

# The newest operators that onnxruntime's reduced package for phones has.
OPSET = 13
# In tf2onnx 1.17 it gives a wrong shape if one shape comes from the shape of another tensor (TransformerModel).
_WRONG_OPTIMIZERS = ("reshape_optimizer",)
_LARGEST_FILE = 2**31 - 1  # bytes of a protobuf message


@contextlib.contextmanager
def plain_loops() -> Iterator[None]:
    """Inside the block loops are built of version 1's operations, which tf2onnx makes one Loop of.

    It cannot convert the tensor lists of version 2's loops. ONNX's LSTM and GRU nodes would be no faster: 16 videos of
    300 frames took 1.3 s of CPU time in LstmModel's Loops, and 1.5 s in LSTM nodes of these sizes
    (`python -m pytest -s -m heavy tests/export/test_onnx_conversion_loops.py`).
    """
    was_on = tf.control_flow_v2_enabled()
    tf.disable_control_flow_v2()
    try:
        yield
    finally:
        if was_on:
            tf.enable_control_flow_v2()


def converted(session: tf.Session, inputs: Iterable[str], output: str) -> Any:
    """The part of the session's graph from `inputs` to `output` as an ONNX model, with the weights as constants.

    Args:
      session: has the weights.
      inputs: the names of placeholders, which become those of the model's inputs.
      output: the name of an operation, which becomes that of the model's output.

    Raises:
      UsageError: tf2onnx is not installed.
      RunError: an operation cannot be converted; the message names it.
    """
    optimizer, tfonnx = _import_tf2onnx()
    renamed = {f"{name}:0": name for name in (*inputs, output)}
    frozen = tf.graph_util.convert_variables_to_constants(session, session.graph.as_graph_def(), [output])
    if frozen.ByteSize() > _LARGEST_FILE:
        raise RunError(
            "the model cannot be written as ONNX: an ONNX file holds at most 2 GB, and its weights are more."
        )
    try:
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(frozen, name="")
            del frozen  # a copy of the weights
            made = tfonnx.process_tf_graph(
                graph,
                opset=OPSET,
                input_names=[f"{name}:0" for name in inputs],
                output_names=[f"{output}:0"],
                tensors_to_rename=renamed,
            )
            passes = {
                name: optimizer_pass
                for name, optimizer_pass in optimizer._get_optimizers().items()
                if name not in _WRONG_OPTIMIZERS
            }
            # After each pass every node would write its attributes, weights included, to its message anew, whose arena
            # keeps the former ones: 20 copies of the weights. Only `make_model` reads the messages.
            made.update_proto = lambda: None
            optimized = optimizer.optimize_graph(made, catch_errors=False, optimizers=passes)
            del made.update_proto
            model = optimized.make_model("yt8m")
    except Exception as error:  # tf2onnx raises whatever its converters meet
        raise RunError(f"the model cannot be written as ONNX: tf2onnx fails: {first_line(error)}") from error
    _refuse_unknown(model)
    _make_sigmoids_exact(model.graph)
    return model


def _import_tf2onnx() -> tuple[Any, Any]:
    try:
        from tf2onnx import optimizer, tfonnx
    except ImportError as error:
        raise missing_extra("--format=onnx", "tf2onnx with onnx and onnxruntime", "onnx-export") from error
    logging.getLogger("tf2onnx").setLevel(logging.CRITICAL)
    return optimizer, tfonnx


def graphs_of(model: Any) -> Iterator[Any]:
    """Yields the graph of an ONNX model and the bodies of its loops."""
    graphs = [model.graph]
    while graphs:
        graph = graphs.pop()
        yield graph
        graphs += [attribute.g for node in graph.node for attribute in node.attribute if attribute.HasField("g")]


def operators(model: Any) -> Mapping[tuple[str, str], int]:
    """How often each operator is in an ONNX model and in the bodies of its loops, by (domain, name)."""
    return collections.Counter((node.domain, node.op_type) for graph in graphs_of(model) for node in graph.node)


def _refuse_unknown(model: Any) -> None:
    """tf2onnx leaves what it cannot convert in the model, under TensorFlow's name."""
    from onnx import defs

    unknown = [name for domain, name in operators(model) if not defs.has(name, domain=domain)]
    if unknown:
        raise RunError(
            f"the model cannot be written as ONNX: ONNX has nothing for TensorFlow's {', '.join(sorted(unknown))}."
        )


def _make_sigmoids_exact(graph: Any) -> None:
    """Writes sigmoid(x) outside of loops as 1 / (1 + exp(-x)).

    onnxruntime's Sigmoid is exact to 1e-7, but not relative to a small value. NeXtVLAD weights frames by sigmoids and
    normalises their sum to length 1: where all weights are small, scores differed by up to 9e-4.
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


def with_texts(model: Any, texts: Mapping[str, str]) -> bytes:
    """The content of a file with the model, whose metadata are `texts`."""
    del model.metadata_props[:]
    for name, text in texts.items():
        model.metadata_props.add(key=name, value=text)
    return bytes(model.SerializeToString())
