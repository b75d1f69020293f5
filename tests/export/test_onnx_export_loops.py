"""What the Loop of a recurrent model costs beside ONNX's own LSTM and GRU nodes; -s prints the CPU times."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from yt8m import models
from yt8m.export import onnx_export
from yt8m.lazy import tf
from yt8m.numerics.onnx_session import open_session

VIDEOS, FRAMES, SIZE, CELLS, LAYERS = 16, 300, 1152, 1024, 2


def model_with_loops(name: str) -> Any:
    """The published sizes, which are those of the constants, with random weights."""
    with onnx_export.plain_loops(), tf.Graph().as_default(), tf.Session() as session:
        frames = tf.placeholder(tf.float32, [None, None, SIZE], name="frames")
        num_frames = tf.placeholder(tf.int32, [None], name="num_frames")
        model = models.get(name)()
        made = model.create_model(frames, vocab_size=20, num_frames=num_frames, is_training=False, labels=None)
        tf.identity(made.predictions, name="scores")
        session.run(tf.global_variables_initializer())
        return onnx_export.convert(session, ("frames", "num_frames"), "scores")


def model_with_nodes(operator: str, gates: int) -> Any:
    """The same layers, without the classifier."""
    weights = [numpy_helper.from_array(np.array([1]), "direction")]
    nodes, inputs = [helper.make_node("Transpose", ["frames"], ["layer0"], perm=[1, 0, 2])], SIZE
    draw = np.random.default_rng(0)
    for layer in range(LAYERS):
        for name, size in (("W", inputs), ("R", CELLS)):
            values = draw.normal(0, 0.02, (1, gates * CELLS, size)).astype(np.float32)
            weights.append(numpy_helper.from_array(values, f"{name}{layer}"))
        taken = [f"layer{layer}", f"W{layer}", f"R{layer}", "", "num_frames"]
        nodes.append(helper.make_node(operator, taken, [f"all{layer}", f"last{layer}"], hidden_size=CELLS))
        nodes.append(helper.make_node("Squeeze", [f"all{layer}", "direction"], [f"layer{layer + 1}"]))
        inputs = CELLS
    frames = helper.make_tensor_value_info("frames", TensorProto.FLOAT, [None, None, SIZE])
    num_frames = helper.make_tensor_value_info("num_frames", TensorProto.INT32, [None])
    last = helper.make_tensor_value_info(f"last{LAYERS - 1}", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "nodes", [frames, num_frames], [last], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", onnx_export.OPSET)], ir_version=8)


def cpu_seconds(session: onnxruntime.InferenceSession) -> float:
    """The least of three runs, after one that is not counted."""
    frames = np.random.default_rng(1).normal(size=(VIDEOS, FRAMES, SIZE)).astype(np.float32)
    seconds = []
    for _ in range(4):
        began = time.process_time()
        session.run(None, {"frames": frames, "num_frames": np.full(VIDEOS, FRAMES, np.int32)})
        seconds.append(time.process_time() - began)
    return min(seconds[1:])


@pytest.mark.heavy
@pytest.mark.parametrize(("name", "operator", "gates"), [("LstmModel", "LSTM", 4), ("GruModel", "GRU", 3)])
def test_a_loop_costs_little_more_than_nodes(name: str, operator: str, gates: int) -> None:
    loops, nodes = model_with_loops(name), model_with_nodes(operator, gates)
    assert onnx_export.operators(loops)["", "Loop"] == LAYERS
    of_loops, of_nodes = (
        cpu_seconds(open_session(model.SerializeToString(), name, name, cpu_only=True)) for model in (loops, nodes)
    )
    print(f"{name}: Loop {of_loops:.2f} s, {operator} nodes {of_nodes:.2f} s of CPU time")
    assert of_loops < 1.6 * of_nodes
