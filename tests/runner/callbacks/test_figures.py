"""Work behind the steps: in order, one at a time, in another thread; what it raises is raised."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from yt8m.runner.callbacks.figures import OneStepBehind


@pytest.fixture
def made() -> Iterator[list[OneStepBehind]]:
    """Those that a test makes; their threads end with it."""
    all_of_them: list[OneStepBehind] = []
    yield all_of_them
    for one in all_of_them:
        one.close()


def test_calls_come_one_after_the_other_while_the_caller_goes_on(made: list[OneStepBehind]) -> None:
    may_go_on, seen = threading.Event(), []

    def work(number: int) -> int:
        may_go_on.wait(600)
        seen.append((number, threading.current_thread() is threading.main_thread()))
        return 10 * number

    behind = OneStepBehind(work)
    made.append(behind)
    assert behind.wait() is None
    behind.put(1)
    assert seen == []  # nobody has waited for it
    may_go_on.set()
    for number in range(2, 6):
        behind.put(number)
        assert [given for given, _ in seen[: number - 1]] == list(range(1, number))
    assert behind.wait() == 50
    assert seen == [(number, False) for number in range(1, 6)]


@pytest.mark.parametrize("following", ["put", "wait"])
def test_what_a_call_raises_is_raised_at_the_next_step_or_at_the_end(made: list[OneStepBehind], following: str) -> None:
    calls: list[int] = []

    def work(number: int) -> None:
        calls.append(number)
        raise ValueError(f"call {number}")

    behind = OneStepBehind(work)
    made.append(behind)
    behind.put(1)
    with pytest.raises(ValueError, match="call 1"):
        behind.put(2) if following == "put" else behind.wait()
    assert calls == [1]


def test_to_close_it_ends_the_thread_and_says_nothing() -> None:
    def fail() -> None:
        raise ValueError

    before = threading.active_count()
    behind = OneStepBehind(fail)
    behind.put()
    behind.close()
    assert threading.active_count() == before
