"""The ranking of errors beside self-confidence, in worlds with errors of several kinds, and what is told of them."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from benchmarks import label_worlds
from benchmarks.label_worlds import CLEAR, Judged, WorldConfig
from yt8m.labels.confident_joint import JointShares
from yt8m.labels.label_noise import RankingBasis, _ranking_basis, _Rate, _Rates

SMALL = {"videos": 2500, "classes": 12}
# The least lead over self-confidence: in one list, among wrong labels, among missing ones. 0.002 is rounding: pairs of
# nearly the same score change places.
ROUNDING = -0.002


@functools.cache
def judge(config: WorldConfig) -> Judged:
    return label_worlds.judge(config)


def leads(config: WorldConfig) -> np.ndarray:
    rankings = judge(config).rankings
    return np.nan_to_num(np.subtract(rankings["audit"], rankings["self-confidence"]))


@pytest.mark.parametrize(
    "config",
    [
        WorldConfig("uniform", 0.15, **SMALL),
        WorldConfig("uniform", 0.03, **SMALL),
        WorldConfig("alike", 0.15, noise=CLEAR, **SMALL),
        WorldConfig("alike", 0.15, **SMALL),
        WorldConfig("removed", 0.15, **SMALL),
        WorldConfig("by class", 0.15, **SMALL),
    ],
    ids=str,
)
def test_the_ranking_is_at_least_that_of_self_confidence(config: WorldConfig) -> None:
    assert leads(config).min() >= ROUNDING
    assert leads(config)[0] > (0.005 if config.rate > 0.1 else ROUNDING)


@pytest.mark.parametrize(
    "config",
    [
        WorldConfig("added", 0.01, **SMALL),
        WorldConfig("added", 0.03, **SMALL),
        WorldConfig("added", 0.03, noise=CLEAR, **SMALL),
        WorldConfig("added", 0.03, seed=2, **SMALL),
        WorldConfig("added", 0.15, seed=1, **SMALL),
    ],
    ids=str,
)
def test_a_list_that_also_has_missing_labels_loses_nothing_where_none_is(config: WorldConfig) -> None:
    assert leads(config)[0] >= ROUNDING


def test_it_is_better_where_some_classes_are_clearer_than_others() -> None:
    assert leads(WorldConfig("uniform", 0.15, is_spread=True, **SMALL)).min() > 0.01


@pytest.mark.long
@pytest.mark.heavy
@pytest.mark.parametrize("config", [*label_worlds.worlds(1)], ids=str)
def test_the_ranking_is_at_least_that_of_self_confidence_in_every_world(config: WorldConfig) -> None:
    assert leads(config).min() >= ROUNDING


@pytest.mark.long
@pytest.mark.heavy
@pytest.mark.parametrize("config", [*label_worlds.other_worlds(1)], ids=str)
def test_one_list_loses_little_in_worlds_that_only_check(config: WorldConfig) -> None:
    """No rule was found in these: they have other rates, other confusions and other numbers of classes."""
    assert leads(config)[0] >= 5 * ROUNDING


@pytest.mark.parametrize(
    ("wrong", "missing", "basis"),
    [
        (0.02, 0.09, RankingBasis.RATES),
        (0.03, 0.084, RankingBasis.CURVES),  # the curves see the wrong labels of some classes alone
        (0.02, 0.3, RankingBasis.CURVES),
        (0.5, 0.084, RankingBasis.SCORES),
    ],
)
def test_both_shares_must_be_near_the_joint_before_a_list_follows_them(
    wrong: float, missing: float, basis: RankingBasis
) -> None:
    rates = _Rates(_Rate(1.0, 0.009, is_known=True), _Rate(1.0, 0.08, is_known=True), np.zeros((1, 1)))
    is_comparable = wrong <= 7 * 0.009
    assert _ranking_basis(rates, JointShares(wrong, missing), is_comparable) is basis


def test_the_shares_are_near_the_truth_where_both_estimates_agree() -> None:
    config = WorldConfig("uniform", 0.15, noise=CLEAR, **SMALL)
    world, noise = label_worlds.make(config), judge(config).noise
    assert not noise.contradictions()
    assert noise.is_comparable
    assert noise.wrong == pytest.approx((world.labels & ~world.truth).sum() / world.labels.sum(), abs=0.02)
    assert noise.missing == pytest.approx((world.truth & ~world.labels).sum() / world.truth.sum(), abs=0.02)


def test_classes_that_are_confused_make_the_estimates_differ() -> None:
    """The scores alone say that hardly any label is wrong, where a sixth is."""
    config = WorldConfig("alike", 0.15, noise=CLEAR, **SMALL)
    world, noise = label_worlds.make(config), judge(config).noise
    wrong = (world.labels & ~world.truth).sum() / world.labels.sum()
    assert noise.wrong < 0.1 * wrong
    share, joint = noise.contradictions()["wrong"]
    assert share == noise.wrong
    assert joint > 10 * share
    assert not noise.is_comparable
