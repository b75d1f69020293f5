from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import cases
import numpy as np
import pytest
from models.forward import D, T, Variables, check, moe, sigmoid

from yt8m import models
from yt8m.errors import UsageError
from yt8m.export import onnx_export
from yt8m.lazy import tf
from yt8m.models import recurrent
from yt8m.models.layers import Net
from yt8m.numerics import expected_rows

CELL = "multi_rnn_cell/cell_"


def lstm(frames: np.ndarray, v: Variables, scope: str) -> np.ndarray:
    """All outputs of one LSTM layer on one video."""
    kernel, bias = v[f"{scope}/basic_lstm_cell/kernel"], v[f"{scope}/basic_lstm_cell/bias"]
    c = h = np.zeros(kernel.shape[1] // 4)
    outputs = [h]
    for frame in frames:
        i, j, f, o = np.split(np.concatenate([frame, h]) @ kernel + bias, 4)
        c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j)
        h = sigmoid(o) * np.tanh(c)
        outputs.append(h)
    return np.array(outputs)


def gru(frames: np.ndarray, v: Variables, scope: str) -> np.ndarray:
    gates, candidate = (
        [v[f"{scope}/gru_cell/{part}/{kind}"] for kind in ("kernel", "bias")] for part in ("gates", "candidate")
    )
    h = np.zeros(candidate[0].shape[1])
    outputs = [h]
    for frame in frames:
        r, u = np.split(sigmoid(np.concatenate([frame, h]) @ gates[0] + gates[1]), 2)
        fresh = np.tanh(np.concatenate([frame, r * h]) @ candidate[0] + candidate[1])
        h = u * h + (1 - u) * fresh
        outputs.append(h)
    return np.array(outputs)


def test_gru_model() -> None:
    def forward(frames: np.ndarray, v: Variables) -> np.ndarray:
        first = gru(frames, v, f"rnn/{CELL}0")
        second = gru(first[1:], v, f"rnn/{CELL}1")
        return moe(np.concatenate([first[-1], second[-1]]), v)

    check("GruModel", {"gru_cells": 4, "gru_layers": 2, "all_layers": True}, forward)


def memory(frames: np.ndarray, v: Variables, scope: str) -> np.ndarray:
    """c of one LSTM layer after the last frame."""
    kernel, bias = v[f"{scope}/basic_lstm_cell/kernel"], v[f"{scope}/basic_lstm_cell/bias"]
    c = h = np.zeros(kernel.shape[1] // 4)
    for frame in frames:
        i, j, f, o = np.split(np.concatenate([frame, h]) @ kernel + bias, 4)
        c = sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j)
        h = sigmoid(o) * np.tanh(c)
    return c


def test_lstm_model_on_memory_and_evenly_spaced_frames() -> None:
    """In evaluation 3 of 6 frames are read, and each frame of a shorter video."""

    def forward(frames: np.ndarray, v: Variables) -> np.ndarray:
        read = frames[[1, 3, 5]] if len(frames) == 6 else frames[[0, 2, 3]] if len(frames) == 4 else frames
        scope = f"rnn/{CELL}0"
        return moe(np.concatenate([memory(read, v, scope), lstm(read, v, scope)[-1]]), v)

    given = {"lstm_cells": 4, "lstm_layers": 1, "lstm_memory": True, "lstm_random_sequence": True}
    check("LstmModel", {**given, "sequence_frames": 3}, forward)


@pytest.mark.parametrize(
    ("model", "given", "told"),
    [
        ("LstmModel", {"lstm_random_sequence": True}, "lstm_random_sequence draws sequence_frames single frames"),
        ("GruModel", {"gru_random_sequence": True}, "gru_random_sequence draws sequence_frames single frames"),
        ("LstmModel", {"lstm_memory": True, "lstm_kernel": "cudnn"}, "lstm_kernel must be loop if lstm_memory is set"),
    ],
)
def test_impossible_combinations_are_refused(model: str, given: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        models.create(model, given)


def test_bilstm_model() -> None:
    def forward(frames: np.ndarray, v: Variables) -> np.ndarray:
        ways = []
        for way, order in (("fw", frames), ("bw", frames[::-1])):
            first = lstm(order, v, f"bidirectional_rnn/{way}/{CELL}0")
            ways.append(lstm(first[1:], v, f"bidirectional_rnn/{way}/{CELL}1")[-1])
        return moe(np.concatenate(ways), v)

    check("BiLstmModel", {"lstm_cells": 4, "lstm_layers": 2}, forward)


def test_outputs_of_both_ways_meet_at_their_frame() -> None:
    x = np.random.default_rng(0).normal(size=(2, T, D)).astype(np.float32)
    mask = (np.arange(T) < np.array([[T], [3]])).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        inputs = tf.constant(x), tf.constant(mask)
        outputs = recurrent.bidirectional(recurrent.lstm, Net(False), *inputs, 4, 1, "s")[0]
        session.run(tf.global_variables_initializer())
        v = {u.name[:-2]: u.eval(session) for u in tf.global_variables()}
        got = session.run(outputs)
    for row, n in enumerate((T, 3)):
        forth = lstm(x[row, :n], v, f"s/fw/{CELL}0")[1:]
        back = lstm(x[row, :n][::-1], v, f"s/bw/{CELL}0")[1:][::-1]
        np.testing.assert_allclose(got[row, :n], np.concatenate([forth, back], 1), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("loops", "rows", "transpositions"),
    [(contextlib.nullcontext, 0, 1), (contextlib.nullcontext, 3, 0), (onnx_export.plain_loops, 0, 1)],
)
def test_an_lstm_that_knows_its_rows_has_no_step_at_padding(
    loops: Callable[[], Any], rows: int, transpositions: int
) -> None:
    """With the same outputs and final states, also of a video without frames, and in the loops of an ONNX file."""
    counts = np.array([3, T, 0])
    x = np.random.default_rng(0).normal(size=(T, 3, D)).astype(np.float32)
    mask = (np.arange(T)[:, None] < counts).astype(np.float32)
    with loops(), tf.Graph().as_default() as graph, tf.Session() as session:
        kernel = np.random.default_rng(1).normal(size=(D + 4, 16)).astype(np.float32)
        with expected_rows.scope(rows):
            layer = recurrent.lstm(Net(False), tf.constant(x), tf.constant(mask), 4, "s")
        kinds = [op.type for op in graph.get_operations() if op.outputs and op.outputs[0].shape == [16, 4]]
        session.run(tf.global_variables_initializer())
        (weights,) = (v for v in tf.global_variables() if v.op.name.endswith("kernel"))
        weights.load(kernel, session)
        outputs, final = session.run(layer)
    v = {"s/basic_lstm_cell/kernel": kernel, "s/basic_lstm_cell/bias": np.zeros(16)}
    for row, count in enumerate(counts):
        expected = lstm(x[:count, row], v, "s")
        np.testing.assert_allclose(outputs[:count, row], expected[1:], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(final[row], expected[-1], rtol=1e-5, atol=1e-6)
    assert kinds.count("Transpose") == transpositions


@pytest.mark.parametrize("layer", cases.all_of([recurrent.lstm], heavy=[recurrent.gru]))
def test_gradient_is_the_slope_of_the_outputs(layer) -> None:
    """For input, kernels and biases, through the outputs and the final state, in one random direction."""
    rng = np.random.default_rng(2)
    mask = (np.arange(T)[:, None] < np.array([6, 3, 0])).astype(np.float32)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.get_variable("x", initializer=rng.normal(size=(T, 3, D)).astype(np.float32))
        outputs, final = layer(Net(True), x, tf.constant(mask), 4, "s")
        weight = rng.normal(size=(T, 3, 4)).astype(np.float32) * mask[:, :, None]
        loss = tf.reduce_sum(outputs * weight) + tf.reduce_sum(tf.sin(3.0 * final))
        variables = tf.trainable_variables()
        gradients = tf.gradients(loss, variables)
        session.run(tf.global_variables_initializer())
        start = session.run(variables)
        slopes = session.run(gradients)
        for variable, value, slope in zip(variables, start, slopes, strict=True):
            direction = rng.normal(size=value.shape).astype(np.float32)
            ends = []
            for sign in (1, -1):
                variable.load(value + sign * 1e-3 * direction, session)
                ends.append(session.run(loss))
            variable.load(value, session)
            assert (ends[0] - ends[1]) / 2e-3 == pytest.approx((slope * direction).sum(), rel=5e-3, abs=3e-3)
