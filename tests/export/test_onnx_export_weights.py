"""Weights in bytes: the values that they stand for, and what the rounding costs trained models."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import InferenceSession

from yt8m import train
from yt8m.command_line import cli
from yt8m.export import onnx_export
from yt8m.export.small_weights import pack

DRAW = np.random.default_rng(5)


def looped(weights: np.ndarray, bias: np.ndarray) -> onnx.ModelProto:
    """y = W x + b, three times over; W is a constant of the loop's body, and b an initializer outside."""
    tensor = helper.make_tensor_value_info
    body = helper.make_graph(
        [
            helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(weights)),
            helper.make_node("MatMul", ["x", "w"], ["wx"]),
            helper.make_node("Add", ["wx", "bias"], ["next"]),
            helper.make_node("Identity", ["condition"], ["same"]),
        ],
        "body",
        [tensor("count", TensorProto.INT64, []), tensor("condition", TensorProto.BOOL, []), tensor("x", 1, [2, 8])],
        [tensor("same", TensorProto.BOOL, []), tensor("next", 1, [2, 8])],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["three", "", "start"], ["y"], body=body)],
        "graph",
        [tensor("start", 1, [2, 8])],
        [tensor("y", 1, [2, 8])],
        [numpy_helper.from_array(bias, "bias"), numpy_helper.from_array(np.array(3), "three")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def scores(model: onnx.ModelProto, start: np.ndarray) -> np.ndarray:
    return InferenceSession(model.SerializeToString()).run(None, {"start": start})[0]


def test_bytes_stand_for_the_values_that_a_small_saved_model_has() -> None:
    weights, bias = DRAW.normal(size=(8, 8)).astype(np.float32), DRAW.normal(size=8).astype(np.float32)
    weights[:, 2] = 0.25  # a column of one value
    start = DRAW.normal(size=(2, 8)).astype(np.float32)
    packed = pack(weights, "int8").value()
    expected = start
    for _ in range(3):
        expected = expected @ packed + bias
    model = looped(weights, bias)
    onnx_export.store_as_bytes(model)
    onnx.checker.check_model(model, full_check=True)
    np.testing.assert_allclose(scores(model, start), expected, rtol=1e-5, atol=1e-5)
    (body,) = (node.attribute[0].g for node in model.graph.node if node.op_type == "Loop")
    assert {tensor.name: tensor.data_type for tensor in body.initializer} == {
        "w/codes": TensorProto.UINT8,
        "w/minimum": TensorProto.FLOAT,
        "w/step": TensorProto.FLOAT,
    }


def test_what_bytes_do_not_make_smaller_stays() -> None:
    model = looped(DRAW.normal(size=(8, 8)).astype(np.float32), np.zeros((1, 8), np.float32))
    before = [tensor.SerializeToString() for tensor in model.graph.initializer]
    onnx_export.store_as_bytes(model)
    assert [tensor.SerializeToString() for tensor in model.graph.initializer] == before


MODELS = {
    "MoeModel": (),
    "DbofModel": ("--dbof_cluster_size=512", "--dbof_hidden_size=128", "--batch_norm_decay=0.9"),
    "NetVladModel": ("--netvlad_cluster_size=16", "--netvlad_hidden_size=128", "--batch_norm_decay=0.9"),
    "LstmModel": ("--lstm_cells=128", "--lstm_layers=1"),
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("data")
    words = ["--num_classes=400", "--min_frames=20", "--max_frames=30"]
    for level in ("video", "frame"):
        assert cli.main(["sample-data", f"--out={folder}", f"--level={level}", *words]) == 0
    return folder


@pytest.mark.heavy
@pytest.mark.parametrize("model", MODELS)
def test_a_trained_model_keeps_its_gap_in_a_quarter_of_the_size(
    model: str, data: pathlib.Path, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    level, run = "video" if model == "MoeModel" else "frame", tmp_path / "run"
    words = [f"--train_data_pattern={data}/{level}/train/*.tfrecord", f"--train_dir={run}", f"--model={model}"]
    words += [*MODELS[model], "--batch_size=50", "--base_learning_rate=0.01", "--seed=1"]
    words += (
        ["--num_epochs=1"]
        if level == "video"
        else ["--num_epochs=5", "--frame_features", "--feature_names=rgb,audio", "--feature_sizes=1024,128"]
    )
    assert train.main(words) == 0
    sizes, gaps = {}, {}
    for weights in ("float32", "int8"):
        path = tmp_path / f"{weights}.onnx"
        words = [f"--model={run}", "--format=onnx", f"--weights={weights}", f"--out={path}"]
        assert cli.main(["export", *words, f"--eval_data_pattern={data}/{level}/validate/*.tfrecord"]) == 0
        (figures,) = (entry.value for entry in onnx.load(path).metadata_props if entry.key == "figures.json")
        gaps[weights] = json.loads(figures)
        sizes[weights] = path.stat().st_size
    assert gaps["float32"]["gap_as_exported"] > 0.3
    assert abs(gaps["float32"]["loss_in_gap"]) < 1e-5
    assert gaps["int8"]["loss_in_gap"] < 0.002
    assert sizes["int8"] < 0.3 * sizes["float32"]
