"""When the memory of a run is moved into huge pages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from tiny_workload import TinyInputter, TinyModeler

from yt8m import huge_pages, runner
from yt8m.graph import EvalOps, InputOps, PredictOps
from yt8m.lazy import tf
from yt8m.runner.lines import StepLine
from yt8m.runner.run_config import Context


def hook_of(after_seconds: tuple[float, ...]) -> Any:
    from yt8m.runner.hooks import HugePagesHook

    return HugePagesHook(Context(None, None, None, None), after_seconds)  # type: ignore[arg-type]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each time that memory was to be moved, whether the run had ended."""
    moved: list[bool] = []
    monkeypatch.setattr(huge_pages, "move_memory", lambda is_stopped: moved.append(is_stopped()))
    return moved


def test_memory_is_moved_at_each_of_the_times(calls: list[bool]) -> None:
    hook = hook_of((0.0, 0.01, 3600.0))
    ended = time.monotonic() + 60.0
    while len(calls) < 2 and time.monotonic() < ended:
        hook.after_run(None, None)
        time.sleep(0.01)
    hook.after_run(None, None)
    hook.close()
    assert calls == [False, False]


def test_a_short_run_moves_nothing(calls: list[bool]) -> None:
    hook = hook_of((3600.0,))
    hook.after_run(None, None)
    hook.after_run(None, None)
    hook.close()
    assert calls == []


def test_the_end_of_the_run_ends_the_moving(calls: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    begun = threading.Semaphore(0)

    def move(is_stopped: Callable[[], bool]) -> None:
        begun.release()
        while not is_stopped():
            time.sleep(0.001)
        calls.append(True)

    monkeypatch.setattr(huge_pages, "move_memory", move)
    hook = hook_of((0.0, 0.0))
    hook.after_run(None, None)
    assert begun.acquire(timeout=60)
    hook.after_run(None, None)
    assert not begun.acquire(timeout=0.05)  # one thread at a time
    assert calls == []
    hook.close()
    assert calls == [True]


def test_a_run_does_without_if_it_may_have_no_more_threads(calls: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    hook = hook_of((0.0,))
    with monkeypatch.context() as limits:
        limits.setattr(threading.Thread, "start", refuse)
        hook.after_run(None, None)
    hook.close()
    assert calls == []


@pytest.mark.parametrize(("kind", "count"), [(runner.Runner, 1), (runner.StandingEvaluation, 0)])
def test_a_run_has_the_hook_and_an_evaluation_inside_a_training_has_not(kind: type[runner.Runner], count: int) -> None:
    from yt8m.runner.hooks import HugePagesHook

    config = runner.RunnerConfig("eval", "unused")
    with tf.Graph().as_default():
        made = kind(config, TinyInputter("unused", 8, 1), TinyModeler(), runner.CallbackConfig(("-eval_speed",)))
        ops = EvalOps(
            tf.constant(0), tf.constant(0), PredictOps(tf.constant(0)), InputOps(tf.no_op(), tf.constant(0), b"")
        )
        context = Context(config, ops, made.modeler, StepLine(1))
        hooks = made._create_hooks(context, [], None)
    assert [isinstance(hook, HugePagesHook) for hook in hooks].count(True) == count
