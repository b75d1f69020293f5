"""The tail of the binomial distribution against SciPy's."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from yt8m.eval_util.guaranteed_precision import trials_without_a_miss, upper_tail


@pytest.mark.parametrize("share", [0.05, 0.5, 0.95, 0.99])
def test_the_tail_is_that_of_scipy(share: float) -> None:
    draw = np.random.default_rng(0)
    trials = np.concatenate([draw.integers(0, 300, 1500), draw.integers(0, 200_000, 100)])
    spread = 3 * np.sqrt(trials * share * (1 - share)) * draw.normal(size=len(trials))
    hits = np.clip(np.round(trials * share + spread), 0, trials).astype(np.int64)
    hits[:20] = trials[:20]
    hits[20:40] = 0
    np.testing.assert_allclose(upper_tail(hits, trials, share), stats.binom.sf(hits - 1, trials, share), rtol=1e-7)


def test_no_trial_and_more_hits_than_trials() -> None:
    assert upper_tail(0, 0, 0.9).tolist() == 1
    assert upper_tail([0, 4, -2], [3, 3, 0], 0.9).tolist() == [1, 0, 1]


@pytest.mark.parametrize(("share", "tail", "trials"), [(0.95, 0.1, 45), (0.5, 0.25, 2), (0.8, 0.1, 11)])
def test_so_many_trials_without_a_miss_are_rare_enough(share: float, tail: float, trials: int) -> None:
    assert trials_without_a_miss(share, tail) == trials
    assert upper_tail(trials, trials, share) <= tail < upper_tail(trials - 1, trials - 1, share)
