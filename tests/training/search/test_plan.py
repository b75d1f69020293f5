"""The plan of a search: it fits into its budget, and depends on sizes alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yt8m.training.search import plan
from yt8m.training.search.candidates import Candidate

CANDIDATES = [Candidate(f"Model{number // 3}", "standardize", 10.0**-number, 0.01) for number in range(12)]


def made(videos: int, budget: float, step: float) -> plan.Plan:
    return plan.make_plan(CANDIDATES, lambda _: step, videos, plan.default_batch_size(videos), budget)


@given(st.integers(20, 200_000), st.floats(1, 400), st.floats(5e-4, 0.5))
def test_a_plan_fits_into_the_budget_unless_one_candidate_alone_does_not(
    videos: int, budget: float, step: float
) -> None:
    found = made(videos, budget, step)
    assert found == made(videos, budget, step)
    assert found.seconds <= plan.SHARE * budget or (len(found.candidates) == 1 and len(found.rungs) == 1)
    assert found.candidates == tuple(CANDIDATES[: len(found.candidates)])
    assert found.rungs[0].candidates == len(found.candidates)
    assert all(rung.steps >= 1 for rung in found.rungs)
    for earlier, later in zip(found.rungs, found.rungs[1:], strict=False):
        assert later.candidates < earlier.candidates
        assert later.steps == 3 * earlier.steps


@given(st.integers(20, 200_000), st.floats(1, 400), st.floats(1, 10))
def test_a_larger_budget_tries_no_fewer_candidates(videos: int, budget: float, factor: float) -> None:
    assert len(made(videos, budget * factor, 0.002).candidates) >= len(made(videos, budget, 0.002).candidates)


@pytest.mark.parametrize(("videos", "size"), [(1, 32), (160, 32), (2_000, 64), (10_000, 256), (100_000, 1024)])
def test_batches_are_a_thirtieth_of_the_videos(videos: int, size: int) -> None:
    assert plan.default_batch_size(videos) == size


def test_the_budget_grows_with_the_data() -> None:
    assert [plan.default_budget(videos) for videos in (10, 10_000, 25_000)] == [40, 40, 100]
