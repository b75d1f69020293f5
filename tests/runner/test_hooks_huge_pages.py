"""When the memory of a run is moved into huge pages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from yt8m import huge_pages
from yt8m.lazy import tf  # noqa: F401 - the hooks derive from a class of TensorFlow
from yt8m.runner.run_config import Context

PAGE = 2 << 20


def hook_of(after_seconds: tuple[float, ...]) -> Any:
    from yt8m.runner.hooks import HugePagesHook

    return HugePagesHook(Context(None, None, None, None), after_seconds)  # type: ignore[arg-type]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the pages into which memory was to be moved, by a system that has huge pages."""
    sizes: list[int] = []
    monkeypatch.setattr(huge_pages, "size", lambda: PAGE)
    monkeypatch.setattr(huge_pages, "move_memory", lambda size, _is_stopped: sizes.append(size))
    return sizes


def test_memory_is_moved_at_each_of_the_times(calls: list[int]) -> None:
    hook = hook_of((0.0, 0.01, 3600.0))
    ended = time.monotonic() + 60.0
    while len(calls) < 2 and time.monotonic() < ended:
        hook.after_run(None, None)
        time.sleep(0.01)
    hook.after_run(None, None)
    hook.close()
    assert calls == [PAGE, PAGE]


def test_a_short_run_moves_nothing(calls: list[int]) -> None:
    hook = hook_of((3600.0,))
    hook.after_run(None, None)
    hook.after_run(None, None)
    hook.close()
    assert calls == []


def test_a_system_without_huge_pages_moves_nothing(calls: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "size", lambda: 0)
    hook = hook_of((0.0,))
    hook.after_run(None, None)
    hook.close()
    assert calls == []


def test_the_end_of_the_run_ends_the_moving(calls: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    has_begun = threading.Event()

    def move(size: int, is_stopped: Callable[[], bool]) -> None:
        has_begun.set()
        while not is_stopped():
            time.sleep(0.001)
        calls.append(size)

    monkeypatch.setattr(huge_pages, "move_memory", move)
    hook = hook_of((0.0, 0.0))
    hook.after_run(None, None)
    assert has_begun.wait(60)
    hook.after_run(None, None)  # one thread at a time
    assert calls == []
    hook.close()
    assert calls == [PAGE]
