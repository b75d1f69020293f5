"""The clock of a budget: that of the wall on a quiet machine, a slower one on a busy machine."""

from __future__ import annotations

import time

import pytest

from yt8m.training.search.budget_clock import BudgetClock


@pytest.mark.parametrize(
    ("wall", "computing", "spent"),
    [
        (10, 18, 10),  # two cores compute at the same time
        (10, 6, 6),  # neighbours have the cores for part of the time
        (30, 1, 6),  # what waits is not waited for without end
        (0, 0, 0),
    ],
)
def test_seconds_are_those_of_the_wall_but_less_if_others_have_the_cores(
    monkeypatch: pytest.MonkeyPatch, wall: float, computing: float, spent: float
) -> None:
    monkeypatch.setattr(time, "monotonic", lambda: 100.0)
    monkeypatch.setattr(time, "process_time", lambda: 7.0)
    clock = BudgetClock()
    monkeypatch.setattr(time, "monotonic", lambda: 100.0 + wall)
    monkeypatch.setattr(time, "process_time", lambda: 7.0 + computing)
    assert clock.spent() == pytest.approx(spent)


@pytest.mark.parametrize(
    ("wall", "computing", "spent"),
    [
        (10, 20, 10),  # a quiet machine
        (30, 20, 10),  # a busy one: two threads computed for 10 seconds each
        (10, 10, 5),
        (100, 1, 20),
    ],
)
def test_of_threads_side_by_side_each_has_its_part_of_what_they_computed(
    monkeypatch: pytest.MonkeyPatch, wall: float, computing: float, spent: float
) -> None:
    now = {"monotonic": 100.0, "process_time": 7.0}
    for name in now:
        monkeypatch.setattr(time, name, lambda name=name: now[name])
    clock = BudgetClock()
    now.update(monotonic=104.0, process_time=10.0)
    clock.share(2)
    assert clock.spent() == pytest.approx(3.0)
    now.update(monotonic=104.0 + wall, process_time=10.0 + computing)
    assert clock.spent() == pytest.approx(3.0 + spent)
