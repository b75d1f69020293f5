"""The plan of a search: it fits into its budget, and depends on sizes alone."""

from __future__ import annotations

import cases
import pytest
from hypothesis import given
from hypothesis import strategies as st

from yt8m.config.data_config import DataConfig
from yt8m.config.search_config import BATCH, MODEL, PENALTY, RATE, TRANSFORM, ModelSearchConfig
from yt8m.config.train_config import ModelConfig, TrainConfig
from yt8m.training.search import plan, trials
from yt8m.training.search.candidates import Candidate, candidates_for

CANDIDATES = [Candidate(f"Model{number // 3}", "standardize", 10.0**-number, 0.01) for number in range(12)]


def made(videos: int, budget: float, step: float) -> plan.Plan:
    return plan.make_plan(CANDIDATES, lambda _: step, videos, plan.default_batch_size(videos), budget)


def of_sizes(videos: int, classes: int, model: str = "") -> plan.Plan:
    """The plan for so many videos of 128 values, with the usual candidates, costs and budget."""
    data = DataConfig(feature_names=("clip",), feature_sizes=(128,), num_classes=classes)
    free = (TRANSFORM, PENALTY, RATE, BATCH, *(() if model else (MODEL,)))
    config = TrainConfig(data=data, model=ModelConfig(model or "LogisticModel"), search=ModelSearchConfig(free=free))
    size, listed = plan.default_batch_size(videos), candidates_for(config, videos)
    # A graph of the model is built to know its costs, and a plan asks often.
    seconds = {each.family: trials.seconds_per_step(each, config, size) for each in listed}
    return plan.make_plan(
        listed,
        lambda candidate: seconds[candidate.family],
        min(videos, plan.MOST_VIDEOS),
        size,
        plan.default_budget(videos),
        has_many=plan.are_many(videos),
    )


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


# What is tried on up to 10,000 videos: (model, transform, penalty, rate).
ON_FEW = """
LogisticModel, standardize, penalty 0.03, rate 0.01
GatedMlpModel, standardize, penalty 0.006, rate 0.01
LogisticModel, standardize, penalty 0.1, rate 0.01
MoeModel, standardize, penalty 0.03, rate 0.01
GatedMlpModel, standardize, penalty 0.003, rate 0.005
LogisticModel, l2_normalize, penalty 0.0001, rate 0.1
GatedMlpModel, normal_scores, penalty 0.003, rate 0.005
LogisticModel, standardize, penalty 0.03, rate 0.05
LogisticModel, standardize, penalty 0.3, rate 0.01
LogisticModel, standardize, penalty 0.01, rate 0.01
MoeModel, standardize, penalty 0.1, rate 0.01
GatedMlpModel, standardize, penalty 0.001, rate 0.003
MoeModel, standardize, penalty 0.01, rate 0.01
LogisticModel, standardize, penalty 0.003, rate 0.01
LogisticModel, l2_normalize, penalty 1e-05, rate 0.1
MoeModel, l2_normalize, penalty 1e-05, rate 0.05
ResidualMlpModel, standardize, penalty 0.001, rate 0.003
GatedMlpModel, standardize, penalty 0.0001, rate 0.003
LogisticModel, l2_normalize, penalty 0.001, rate 0.1
LogisticModel, normal_scores, penalty 0.03, rate 0.01
MoeModel, standardize, penalty 0.001, rate 0.01
""".strip().splitlines()
OF_MANY = "MoeModel, standardize, penalty 0.01, rate 0.05"


@pytest.mark.parametrize(
    ("videos", "classes", "rungs"),
    cases.all_of([(2_000, 10, [(21, 240), (6, 720)])], heavy=[(10_000, 100, [(16, 150), (4, 450)])]),
)
def test_up_to_10000_videos_have_the_plan_whose_figures_were_measured(
    videos: int, classes: int, rungs: list[tuple[int, int]]
) -> None:
    found = of_sizes(videos, classes)
    assert [(rung.candidates, rung.steps) for rung in found.rungs] == rungs
    assert list(map(str, found.candidates)) == ON_FEW[: rungs[0][0]]
    named = of_sizes(videos, classes, "MoeModel")
    assert OF_MANY not in map(str, named.candidates)


@pytest.mark.heavy
def test_more_videos_have_a_plan_for_two_cores_with_the_best_of_each_model() -> None:
    found = of_sizes(17_820, 300)
    assert [(rung.candidates, rung.steps) for rung in found.rungs] == [(22, 131), (6, 393)]
    assert sorted(map(str, found.candidates)) == sorted([*ON_FEW, OF_MANY])
    assert plan.SHARE < found.seconds / plan.default_budget(17_820) <= plan.SHARE * plan.CORES_FOR_MANY
    assert OF_MANY in map(str, of_sizes(plan.LEAST_BUDGET_VIDEOS + 1, 10, "MoeModel").candidates)


@given(st.integers(1, 12), st.floats(1, 400), st.floats(5e-4, 0.5))
def test_the_last_round_of_many_videos_has_room_for_each_model(count: int, budget: float, step: float) -> None:
    found = plan.make_plan(CANDIDATES[:count], lambda _: step, 20_000, 512, budget, has_many=True)
    models = {candidate.model for candidate in found.candidates}
    assert found.rungs[-1].candidates >= len(models) or len(found.rungs) == 1
    assert found.seconds <= plan.SHARE * plan.CORES_FOR_MANY * budget or len(found.rungs) == 1


def test_the_best_of_each_model_comes_first_and_then_the_others_in_their_order() -> None:
    found = plan.best_of_each_model([CANDIDATES[number] for number in (4, 3, 0, 5, 1, 9)])
    assert found == [CANDIDATES[number] for number in (4, 0, 9, 3, 5, 1)]
