"""What cuDNN's kernel is given is what the loop computes with. The kernel itself needs a GPU.

It is stood for by its documented equations (NVIDIA cuDNN, `cudnnRNNMode_t`, CUDNN_LSTM), read from the flat
vector: once in NumPy, for values, and once in TensorFlow under the name of the op, for gradients and models.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cases
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import examples
from models.forward import NUM_FRAMES, B, C, D, T, draw_frames, sigmoid

from yt8m import models
from yt8m.errors import UsageError
from yt8m.lazy import tf
from yt8m.models import recurrent
from yt8m.models.layers import Net
from yt8m.numerics import precision

MODELS = [
    pytest.param("LstmModel", 2, {"lstm_cells": 4, "lstm_layers": 2, "all_layers": True}, id="lstm"),
    pytest.param("BiLstmModel", 4, {"lstm_cells": 3, "lstm_layers": 2}, id="bilstm"),
]


def numpy_kernel(x: np.ndarray, params: np.ndarray, cells: int) -> np.ndarray:
    """Outputs [T, B, cells] on inputs [T, B, D]; gates in the order input, forget, new memory, output."""
    features = x.shape[2]
    w, r, b = np.split(params, np.cumsum([4 * cells * features, 4 * cells * cells]))
    w, r, b = w.reshape(4, cells, features), r.reshape(4, cells, cells), b.reshape(2, 4, cells)
    h = c = np.zeros((x.shape[1], cells))
    outputs = []
    for now in x:
        i, f, new, o = (now @ w[k].T + h @ r[k].T + b[0, k] + b[1, k] for k in range(4))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(new)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.array(outputs)


def emulated(input, input_h, input_c, params, sequence_lengths, is_training, **attributes) -> tuple[Any, ...]:
    """tf.raw_ops.CudnnRNNV3 where no row is shorter than the others; `input` of a known shape."""
    assert attributes == {
        "rnn_mode": "lstm",
        "input_mode": "linear_input",
        "direction": "unidirectional",
        "time_major": True,
    }
    times, rows, features = input.shape.as_list()
    cells = input_h.shape.as_list()[-1]
    assert input_h.shape.as_list() == input_c.shape.as_list() == [1, rows, cells]
    assert params.shape.as_list() == [4 * cells * (features + cells + 2)]
    assert {tensor.dtype for tensor in (input, input_h, input_c, params)} == {tf.float32}
    with tf.control_dependencies([tf.assert_equal(sequence_lengths, tf.fill([rows], times))]):
        sizes = [4 * cells * features, 4 * cells * cells, 4 * cells, 4 * cells]
        w, r, b_w, b_r = tf.split(params, sizes)
    w, r = tf.reshape(w, [4, cells, features]), tf.reshape(r, [4, cells, cells])
    b = tf.reshape(b_w + b_r, [4, 1, cells])
    h, c = input_h[0], input_c[0]
    outputs = []
    for time in range(times):
        i, f, new, o = tf.unstack(tf.einsum("bd,kcd->kbc", input[time], w) + tf.einsum("bh,kch->kbc", h, r) + b)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(new)
        h = tf.sigmoid(o) * tf.tanh(c)
        outputs.append(h)
    # As for the op itself, no gradient out of inference.
    found = tf.stack(outputs) if is_training else tf.stop_gradient(tf.stack(outputs))
    return found, h[tf.newaxis], c[tf.newaxis], tf.zeros([0]), tf.zeros([0], tf.int8)


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were one: the op is emulated, and every device has it."""
    monkeypatch.setattr(tf.raw_ops, "CudnnRNNV3", emulated)
    monkeypatch.setattr(recurrent, "runs_cudnn", lambda kernel, _: kernel == recurrent.CUDNN)


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Lines of the log."""
    lines: list[str] = []
    monkeypatch.setattr(recurrent.logging, "info", lines.append)
    recurrent._log_that_the_loop_runs.cache_clear()
    yield lines
    recurrent._log_that_the_loop_runs.cache_clear()


def kinds() -> list[str]:
    """Types of the operations in the graph."""
    return [operation.type for operation in tf.get_default_graph().get_operations()]


def test_each_weight_has_its_place() -> None:
    """One cell on two features: rows are features and the state, columns write, fresh, keep, show."""
    kernel = np.array([[11, 12, 13, 14], [21, 22, 23, 24], [31, 32, 33, 34]], np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        params = recurrent.pack_for_cudnn(tf.constant(kernel), tf.constant([1.0, 2.0, 3.0, 4.0]))
        assert params.shape.as_list() == [4 * 1 * (2 + 1 + 2)]
        found = session.run(params)
    of_input, of_state = [11, 21, 13, 23, 12, 22, 14, 24], [31, 33, 32, 34]
    assert found.tolist() == [*of_input, *of_state, 1, 3 + 1, 2, 4, 0, 0, 0, 0]


@pytest.mark.heavy
@examples(8)
@given(
    times=st.integers(1, 4),
    rows=st.integers(1, 3),
    features=st.integers(1, 6),
    cells=st.integers(1, 5),
    seed=st.integers(0, 99),
)
def test_the_kernel_on_packed_weights_is_the_loop(times: int, rows: int, features: int, cells: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(times, rows, features)).astype(np.float32)
    counts = rng.integers(0, times + 1, rows)
    mask = (np.arange(times)[:, None] < counts).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        loop = recurrent.lstm(Net(False), tf.constant(x), tf.constant(mask), cells, "s")
        variables = tf.global_variables()
        session.run(tf.global_variables_initializer())
        for variable in variables:
            variable.load(rng.normal(size=variable.shape.as_list()), session)
        (outputs, final), params = session.run([loop, recurrent.pack_for_cudnn(*variables)])
    found = numpy_kernel(x.astype(np.float64), params.astype(np.float64), cells)
    for row, count in enumerate(counts):
        np.testing.assert_allclose(found[:count, row], outputs[:count, row], rtol=1e-4, atol=1e-5)
        last = found[count - 1, row] if count else np.zeros(cells)
        np.testing.assert_allclose(last, final[row], rtol=1e-4, atol=1e-5)


def test_a_layer_and_its_gradients_are_those_of_the_loop(on_a_gpu: None) -> None:
    """With rows of all lengths, also none; outputs past the last frame are not looked at."""
    rng = np.random.default_rng(5)
    counts = np.array([T, 3, 0, 1])
    mask = (np.arange(T)[:, None] < counts).astype(np.float32)
    weight = rng.normal(size=(T, 4, 3)).astype(np.float32) * mask[:, :, None]
    found = []
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(rng.normal(size=(T, 4, D)).astype(np.float32))
        for kernel in (recurrent.LOOP, recurrent.CUDNN):
            with tf.variable_scope("", reuse=tf.AUTO_REUSE):
                outputs, final = recurrent.lstm(Net(True), x, tf.constant(mask), 3, "s", kernel=kernel)
            loss = tf.reduce_sum(outputs * weight) + tf.reduce_sum(tf.sin(3.0 * final))
            real = outputs * mask[:, :, None]
            found.append([real, final, *tf.gradients(loss, [x, *tf.trainable_variables()])])
        assert len(tf.trainable_variables()) == 2
        session.run(tf.global_variables_initializer())
        tf.trainable_variables()[1].load(rng.normal(size=12), session)
        of_loop, of_kernel = session.run(found)
    assert not of_kernel[1][2].any()
    for expected, value in zip(of_loop, of_kernel, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize(("name", "layers", "values"), MODELS)
@pytest.mark.heavy
def test_a_model_and_its_gradients_are_those_of_the_loop(
    on_a_gpu: None, name: str, layers: int, values: dict[str, Any], is_training: bool
) -> None:
    found, names = [], []
    slope = np.random.default_rng(6).normal(size=(B, C)).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        for kernel in (recurrent.LOOP, recurrent.CUDNN):
            with tf.variable_scope("tower", reuse=tf.AUTO_REUSE):
                output = models.create(name, {**values, "lstm_kernel": kernel}).create_model(
                    tf.constant(draw_frames()), C, tf.constant(NUM_FRAMES), is_training=is_training
                )
            variables = tf.trainable_variables()
            names.append([variable.name for variable in variables])
            loss = tf.reduce_sum(slope * output.predictions)
            gradients = tf.gradients(loss, variables) if is_training else []
            found.append([output.predictions, *gradients])
        rng = np.random.default_rng(7)
        session.run(tf.global_variables_initializer())
        for variable in tf.trainable_variables():
            variable.load(rng.normal(size=variable.shape.as_list()), session)
        of_loop, of_kernel = session.run(found)
    assert names[0] == names[1]
    for expected, value in zip(of_loop, of_kernel, strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "layers", "values"), MODELS)
@pytest.mark.parametrize("is_training", cases.all_of([True], heavy=[False]))
def test_the_graph_for_a_gpu_has_the_op_once_a_layer(
    said: list[str], name: str, layers: int, values: dict[str, Any], is_training: bool
) -> None:
    """In float32, also where other products are not."""
    cells = values["lstm_cells"]
    with tf.Graph().as_default() as graph, tf.device("/gpu:0"), precision.scope("bfloat16"):
        x, num_frames = tf.placeholder(tf.float32, [None, None, D]), tf.placeholder(tf.int32, [None])
        output = models.create(name, {**values, "lstm_kernel": "cudnn"}).create_model(
            x, C, num_frames, is_training=is_training
        )
        assert output.predictions.shape.as_list() == [None, C]
        ops = [operation for operation in graph.get_operations() if operation.type == "CudnnRNNV3"]
        assert len(ops) == layers
        assert not {"While", "StatelessWhile", "LoopCond"} & set(kinds())
        for op in ops:
            features = op.inputs[0].shape.as_list()[-1]
            assert op.get_attr("is_training") is is_training
            assert op.inputs[1].shape.as_list() == op.inputs[2].shape.as_list() == [1, None, cells]
            assert op.inputs[3].shape.as_list() == [4 * cells * (features + cells + 2)]
            assert op.outputs[0].shape.as_list() == [None, None, cells]
            assert op.outputs[0].dtype == tf.float32
        assert sorted(op.inputs[0].shape.as_list()[-1] for op in ops) == sorted([D, cells] * (layers // 2))
        if is_training:
            gradients = tf.gradients(output.predictions, tf.trainable_variables())
            assert None not in gradients
            assert kinds().count("CudnnRNNBackpropV3") == layers
    assert said == []


@pytest.mark.parametrize("device", [None, "/cpu:0", "rocm"])
def test_elsewhere_the_loop_runs_and_the_log_says_so_once(
    said: list[str], monkeypatch: pytest.MonkeyPatch, device: str | None
) -> None:
    if device == "rocm":
        monkeypatch.setattr(tf.test, "is_built_with_rocm", lambda: True)
        device = "/gpu:0"
    with tf.Graph().as_default(), tf.device(device):
        models.create("LstmModel", {"lstm_cells": 3, "lstm_kernel": "cudnn"}).create_model(
            tf.constant(draw_frames()), C, tf.constant(NUM_FRAMES), is_training=True
        )
        assert "CudnnRNNV3" not in kinds()
    assert len(said) == 1
    assert "lstm_kernel=cudnn" in said[0]


def test_the_loop_is_the_default_and_other_names_are_refused(said: list[str]) -> None:
    assert models.create("LstmModel").lstm_kernel == models.create("BiLstmModel").lstm_kernel == "loop"
    with tf.Graph().as_default(), tf.device("/gpu:0"):
        models.create("LstmModel", {"lstm_cells": 3}).create_model(
            tf.constant(draw_frames()), C, tf.constant(NUM_FRAMES), is_training=True
        )
        assert "CudnnRNNV3" not in kinds()
    assert said == []
    with pytest.raises(UsageError, match=r"lstm_kernel .*loop, cudnn"):
        models.create("LstmModel", {"lstm_kernel": "cuda"})
