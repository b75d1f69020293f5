"""The plan of a search: which candidates are trained for how many steps. It depends on sizes and on fixed costs alone.

So two machines make the same plan for the same data and budget; the clock can only cut a plan short.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from yt8m.training.search.candidates import Candidate

_GRAPH = 0.7  # seconds of one core to build the graph of a family of candidates, as measured in 2026
SHARE = 0.6  # of the budget for the search; the rest is for the training of the chosen candidate
_KEPT = 4  # each rung keeps one candidate of so many
_LONGER = 3  # each rung trains so many times as long as the one before
_STEPS, _EPOCHS = 300, 15  # the first rung trains so many steps, and at least so many epochs of few videos
_RUNGS = 2
# Few videos to compare on choose badly. If there are fewer than so many, the last rung trains each of its candidates so
# many times, each time without other videos, and compares them on all. Few videos need little time after the search.
_FEW, _FOLDS, _SHARE_OF_FOLDS = 150, 4, 0.75
LEAST_BUDGET_VIDEOS = 10_000  # up to so many videos the default budget is `_BUDGET`; then it grows with their number
_BUDGET = 40.0
MOST_VIDEOS = 20_000  # a search trains on a sample of at most so many videos
# Of more than `LEAST_BUDGET_VIDEOS`, a hundred steps are few epochs, in which models with many weights fall behind. So
# the best of each model is trained on, and the plan counts on so many cores; on one, the clock cuts it short.
CORES_FOR_MANY = 2


class Rung(NamedTuple):
    """One round of a search.

    Attributes:
      folds: in so many ways the videos are divided into those to train on and those to compare on.
    """

    candidates: int
    steps: int
    folds: int = 1


class Plan(NamedTuple):
    """What a search does.

    Attributes:
      candidates: all candidates, in the order in which the first rung trains them.
    """

    candidates: tuple[Candidate, ...]
    batch_size: int
    rungs: tuple[Rung, ...]
    seconds: float


def default_budget(videos: int) -> float:
    """Seconds: 40 for up to 10,000 videos, then in proportion to their number."""
    return _BUDGET * max(1.0, videos / LEAST_BUDGET_VIDEOS)


def default_batch_size(videos: int) -> int:
    """The power of two near a thirtieth of the videos, from 32 to 1024: so an epoch has some thirty steps or more."""
    return int(min(1024, max(32, 2 ** round(math.log2(max(videos, 1) / 30)))))


def default_folds(held_out: int) -> int:
    """The number of folds of the last rung, by the number of videos to compare on."""
    return _FOLDS if 0 < held_out < _FEW else 1


def are_many(videos: int) -> bool:
    """Whether there are more videos than the usual budget is for."""
    return videos > LEAST_BUDGET_VIDEOS


def best_of_each_model(best_first: Sequence[Candidate]) -> list[Candidate]:
    """The candidates in their order, but first the best one of each model."""
    best: dict[str, Candidate] = {}
    for candidate in best_first:
        best.setdefault(candidate.model, candidate)
    others = [candidate for candidate in best_first if candidate is not best[candidate.model]]
    return [*best.values(), *others]


def make_plan(
    candidates: Sequence[Candidate],
    cost: Callable[[Candidate], float],
    videos: int,
    batch_size: int,
    budget: float,
    folds: int = 1,
    comparison: float = 0.0,
    has_many: bool = False,
) -> Plan:
    """Makes the plan that fits into the budget: fewer steps if it is tight, then fewer candidates.

    Args:
      cost: seconds of one core for a step of a candidate, by a fixed table.
      budget: seconds, of which the search gets a part.
      folds: those of the last rung; see `default_folds`.
      comparison: seconds of one core to compute the figures of a trained candidate; of folds, those of all together.
      has_many: whether the data are large (`are_many`), so that the last rung trains the best of each model.
    """
    share = SHARE if folds == 1 else _SHARE_OF_FOLDS
    seconds_of_cores = budget * share * (CORES_FOR_MANY if has_many else 1)
    epoch = math.ceil(videos / batch_size)
    first = max(_STEPS, _EPOCHS * epoch)
    for count in range(len(candidates), 0, -1):
        for divisor in (1, 2, 4):
            models = len({candidate.model for candidate in candidates[:count]}) if has_many else 1
            rungs = _rungs(count, max(1, first // divisor), folds, models)
            seconds = _seconds(candidates[:count], cost, rungs, comparison)
            if seconds <= seconds_of_cores:
                return Plan(tuple(candidates[:count]), batch_size, rungs, seconds)
    rungs = (Rung(1, max(1, first // 4)),)
    return Plan(tuple(candidates[:1]), batch_size, rungs, _seconds(candidates[:1], cost, rungs, comparison))


def _rungs(candidates: int, steps: int, folds: int, least: int) -> tuple[Rung, ...]:
    """The rungs of so many candidates; the later ones train at least `least` of them."""
    rungs = [Rung(candidates, steps)]
    while len(rungs) < _RUNGS and rungs[-1].candidates > 1:
        survivors = max(least, math.ceil(rungs[-1].candidates / _KEPT))
        rungs.append(Rung(survivors, rungs[-1].steps * _LONGER, folds))
    return tuple(rungs)


def _seconds(
    candidates: Sequence[Candidate], cost: Callable[[Candidate], float], rungs: Sequence[Rung], comparison: float
) -> float:
    """Seconds of one core; of later rungs, which candidates they train is not known, so the costliest count."""
    steps = sorted(map(cost, candidates), reverse=True)
    total = _GRAPH * len({candidate.family for candidate in candidates}) + sum(steps) * rungs[0].steps
    total += comparison * sum(rung.candidates for rung in rungs)
    return total + sum(sum(steps[: rung.candidates]) * rung.steps * rung.folds for rung in rungs[1:])
