from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from laws import examples

from yt8m.lazy import tf
from yt8m.models import recurrent, time_steps
from yt8m.models.layers import Net
from yt8m.numerics import expected_rows

CELLS, SIZE = 2, 3


def mask_of(counts: list[int], times: int) -> np.ndarray:
    return (np.arange(times)[:, None] < np.array(counts, int)).astype(np.float32)


def test_packed_rows_are_the_real_frames_with_the_longest_video_first() -> None:
    values = np.arange(9, dtype=np.float32).reshape(3, 3, 1)
    with tf.Graph().as_default(), tf.Session() as session:
        steps = time_steps.PackedFrames(tf.constant(mask_of([1, 3, 0], 3)), is_training=True)
        rows = steps.rows(tf.constant(values))
        found = session.run([rows, steps.in_time(rows), steps.final(rows, rows), steps.times])
    assert found[0][:, 0].tolist() == [1, 0, 4, 7]
    assert found[1][:, :, 0].tolist() == [[0, 1, 0], [0, 4, 0], [0, 7, 0]]
    assert found[2][:, 0].tolist() == [0, 7, 0]
    assert found[3] == 3


def test_padded_rows_are_all_frames() -> None:
    values = np.arange(6, dtype=np.float32).reshape(3, 2, 1)
    with tf.Graph().as_default(), tf.Session() as session:
        steps = time_steps.PaddedFrames(tf.constant(mask_of([1, 3], 3)))
        rows = steps.rows(tf.constant(values))
        found, again = session.run([rows, steps.in_time(rows)])
    assert found[:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert np.array_equal(again, values)


@pytest.mark.parametrize("is_training", [True, False])
def test_gates_of_a_step_are_those_of_a_split_and_slices_only_where_no_gradient_is_computed(is_training: bool) -> None:
    values = np.arange(12, dtype=np.float32).reshape(2, 6)
    with tf.Graph().as_default() as graph, tf.Session() as session:
        packed = time_steps.PackedFrames(tf.constant(mask_of([1, 3], 3)), is_training=is_training)
        gates = packed.gates(tf.constant(values), 3)
        assert np.array_equal(session.run(gates), np.split(values, 3, 1))
        assert ("Slice" in {op.type for op in graph.get_operations()}) is not is_training


@pytest.mark.parametrize(
    ("is_training", "rows", "device", "kind"),
    [
        (True, 0, None, time_steps.PackedFrames),
        (False, 0, None, time_steps.PaddedFrames),
        (False, 3, None, time_steps.PackedFrames),
        (True, 0, "/gpu:0", time_steps.PaddedFrames),
        (False, 3, "/gpu:0", time_steps.PaddedFrames),
    ],
)
@pytest.mark.parametrize("layer", [recurrent.lstm, recurrent.gru])
def test_padding_is_left_out_on_a_cpu_unless_the_graph_may_be_exported(
    monkeypatch: pytest.MonkeyPatch,
    layer: Callable[..., Any],
    is_training: bool,
    rows: int,
    device: str | None,
    kind: type,
) -> None:
    chosen, choose = [], time_steps.choose_frames

    def noted(mask: tf.Tensor, *, is_training: bool) -> time_steps.Frames:
        chosen.append(choose(mask, is_training=is_training))
        return chosen[-1]

    monkeypatch.setattr(time_steps, "choose_frames", noted)
    with tf.Graph().as_default(), tf.device(device), expected_rows.scope(rows):
        layer(Net(is_training), tf.zeros([2, 3, SIZE]), tf.ones([2, 3]), CELLS, "s")
    assert [type(frames) for frames in chosen] == [kind]


def test_a_packed_step_has_the_videos_that_have_a_frame_at_its_time() -> None:
    state = np.arange(3, dtype=np.float32)[:, None]
    with tf.Graph().as_default(), tf.Session() as session:
        steps = time_steps.PackedFrames(tf.constant(mask_of([1, 3, 2], 3)), is_training=True)
        read = session.run([steps.before(time, tf.constant(state)) for time in range(3)])
    assert [values[:, 0].tolist() for values in read] == [[0, 1, 2], [0, 1], [0]]


def test_a_padded_step_changes_the_videos_that_have_a_frame_at_its_time() -> None:
    state = np.arange(1, 4, dtype=np.float32)[:, None]
    with tf.Graph().as_default(), tf.Session() as session:
        steps = time_steps.PaddedFrames(tf.constant(mask_of([1, 3, 2], 3)))
        states, new = (tf.constant(state), tf.constant(2 * state)), (tf.constant(-state), tf.constant(-2 * state))
        found = session.run([steps.after(time, states, new) for time in range(3)])
    for factor, values in enumerate(zip(*found, strict=True), 1):
        expected = [[-1, -2, -3], [1, -2, -3], [1, -2, 3]]
        assert [array[:, 0].tolist() for array in values] == (factor * np.array(expected)).tolist()


trained = functools.partial(time_steps.PackedFrames, is_training=True)
scored = functools.partial(time_steps.PackedFrames, is_training=False)


class Layer:
    """A layer with padding and without, for training and for scores, and what each gives, gradients included."""

    def __init__(self, layer: Callable[..., Any], session: tf.Session) -> None:
        self._inputs, self._mask = (
            tf.placeholder(tf.float32, [None, None, SIZE]),
            tf.placeholder(tf.float32, [None, None]),
        )
        self._kinds = [self._results(layer, steps) for steps in (time_steps.PaddedFrames, trained, scored)]
        self._session = session
        self._session.run(tf.global_variables_initializer())
        rng = np.random.default_rng(3)
        for variable in tf.trainable_variables():
            variable.load(rng.normal(size=variable.shape.as_list()), self._session)

    def _results(self, layer: Callable[..., Any], steps: Callable[..., Any]) -> list[tf.Tensor]:
        with pytest.MonkeyPatch.context() as patch, tf.variable_scope("", reuse=tf.AUTO_REUSE):
            patch.setattr(time_steps, "choose_frames", lambda mask, **_: steps(mask))
            outputs, final = layer(Net(True), self._inputs, self._mask, CELLS, "s")
        real = outputs * self._mask[:, :, tf.newaxis]
        loss = tf.reduce_sum(tf.sin(3.0 * real)) + tf.reduce_sum(tf.cos(final))
        return [real, final, *tf.gradients(loss, [self._inputs, *tf.trainable_variables()])]

    def run(self, inputs: np.ndarray, mask: np.ndarray) -> list[list[np.ndarray]]:
        found: list[list[np.ndarray]] = self._session.run(self._kinds, {self._inputs: inputs, self._mask: mask})
        return found


@pytest.mark.parametrize("layer", [recurrent.lstm, recurrent.gru])
def test_layers_and_their_gradients_are_the_same_with_and_without_padding(layer: Callable[..., Any]) -> None:
    """Also for batches without a real frame, and without a video."""

    @examples(50)
    @given(times=st.integers(1, 5), data=st.data())
    def law(times: int, data: st.DataObject) -> None:
        counts = data.draw(st.lists(st.integers(0, times), max_size=4))
        inputs = np.random.default_rng(len(counts)).normal(size=(times, len(counts), SIZE))
        padded, *packed = kinds.run(inputs, mask_of(counts, times))
        for expected, found in zip([*padded, *padded], [*packed[0], *packed[1]], strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)

    with tf.Graph().as_default(), tf.Session() as session:
        kinds = Layer(layer, session)
        law()
