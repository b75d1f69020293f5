"""Compilation ahead of the first step: what it finds in a graph, and what it leaves to the step."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from yt8m.lazy import tf
from yt8m.numerics.compiled import fused
from yt8m.runner.run_config import Context

COLUMNS, ROWS = 600, 8


def hook_of(rows: int) -> Any:
    from yt8m.runner.hooks import CompileHook

    config = types.SimpleNamespace(batch_size_per_gpu=rows)
    return CompileHook(Context(config, None, None, None))  # type: ignore[arg-type]


def doubled(values: tf.Tensor) -> tf.Tensor:
    return 2.0 * values


def graph_of(function: Callable[[tf.Tensor], tf.Tensor], sizes: list[int | None]) -> tuple[tf.Tensor, tf.Tensor]:
    given = tf.placeholder(tf.float32, sizes)
    return given, fused(function, given)


@pytest.mark.parametrize("sizes", [[None, COLUMNS], [ROWS, COLUMNS]])
def test_a_function_is_run_on_zeros_of_the_size_of_a_batch(
    sizes: list[int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    with tf.Graph().as_default(), tf.Session() as session:
        given, result = graph_of(doubled, sizes)
        run = session.run
        monkeypatch.setattr(session, "run", lambda *words: (seen.append(words[:2]), run(*words)))
        hook = hook_of(ROWS)
        hook.after_create_session(session, tf.train.Coordinator())
        hook.close()
        ((calls, fed),) = seen
        assert calls == [result.op]
        (value,) = fed.values()
        assert value.shape == (ROWS, COLUMNS)
        assert not value.any()
        ones = np.ones((ROWS, COLUMNS), np.float32)
        np.testing.assert_array_equal(run(result, {given: ones}), 2 * ones)


def test_a_function_of_another_unknown_size_is_left_to_the_step() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        given = tf.placeholder(tf.float32, [None, None, COLUMNS])
        fused(doubled, given)
        hook = hook_of(ROWS)
        hook.after_create_session(session, tf.train.Coordinator())
        assert hook._thread is None


def test_functions_that_are_not_compiled_are_left_alone() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        tf.function(doubled)(tf.placeholder(tf.float32, [None, COLUMNS]))
        hook = hook_of(ROWS)
        hook.after_create_session(session, tf.train.Coordinator())
        assert hook._thread is None


def test_what_fails_is_left_to_the_step() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        graph_of(lambda values: tf.reshape(values, [7, -1]), [None, COLUMNS])  # 8 x 600 is no multiple of 7
        hook = hook_of(ROWS)
        hook.after_create_session(session, tf.train.Coordinator())
        hook.close()
        assert session.run(tf.constant(3)) == 3


def test_a_function_with_state_is_left_to_the_step() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        count = tf.get_variable("count", [], initializer=tf.zeros_initializer(), use_resource=True)

        def counting(values: tf.Tensor) -> tf.Tensor:
            return values + count.assign_add(1.0)

        tf.function(counting, jit_compile=True)(tf.placeholder(tf.float32, [None, COLUMNS]))
        session.run(tf.global_variables_initializer())
        hook = hook_of(ROWS)
        hook.after_create_session(session, tf.train.Coordinator())
        hook.close()
        assert session.run(count) == 0
