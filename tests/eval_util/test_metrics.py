"""Metrics: names, formats and the loading of own ones; the functions on a batch."""

from __future__ import annotations

import math
import sys
import types
from typing import Any

import numpy as np
import pytest
from eval_util import brute_force

from yt8m.errors import UsageError
from yt8m.eval_util import calculate_gap, calculate_hit_at_one, calculate_precision_at_equal_recall_rate
from yt8m.eval_util.metrics import (
    THIRDS,
    Description,
    Gap,
    HitAtOne,
    Loss,
    Metric,
    RankedEntries,
    find,
    gap_first,
    load,
    names_of_details,
    why_undefined,
)

FUNCTIONS = (calculate_hit_at_one, calculate_precision_at_equal_recall_rate, calculate_gap)


def test_each_is_the_mean_of_its_definition() -> None:
    draw = np.random.default_rng(2)
    scores, labels = draw.random((40, 30), dtype=np.float32), draw.random((40, 30)) < 0.2
    labels[0], labels[1, :25] = False, True  # none, and more than are usually ranked
    best = labels[np.arange(40), scores.argmax(axis=1)]
    assert calculate_hit_at_one(scores, labels) == pytest.approx(best.mean())
    expected = np.mean(brute_force.perr(scores, labels))
    assert calculate_precision_at_equal_recall_rate(scores, labels) == pytest.approx(expected)
    for k in (1, 3, 20, 30, 50):
        assert calculate_gap(scores, labels, k) == pytest.approx(brute_force.gap(scores, labels, k))
    assert calculate_gap(scores, labels) == calculate_gap(scores, labels, 20)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_without_an_example_each_is_a_plain_zero(function) -> None:
    found = function(np.zeros((0, 3)), np.zeros((0, 3)))
    assert (type(found), found) == (float, 0.0)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_wrong_shape_is_named(function) -> None:
    with pytest.raises(ValueError, match=r"(actuals|labels)\b.*shape.*predictions, \(2, 3\).* \(2, 4\)"):
        function(np.zeros((2, 3)), np.zeros((2, 4)))
    with pytest.raises(ValueError, match=r"predictions must be \[examples, classes\].* the shape is \(3,\)"):
        function(np.zeros(3), np.zeros(3))


@pytest.mark.parametrize("wrong", [0, -1, 2.5])
def test_the_refused_number_is_named(wrong) -> None:
    with pytest.raises(ValueError, match=rf"^top_k\b.*positive integer.* {wrong}$"):
        calculate_gap(np.zeros((1, 2)), np.zeros((1, 2)), wrong)


def test_the_built_in_metrics_have_the_published_names_in_the_published_order() -> None:
    built_in = load()[:12]  # metrics that are added come after them
    shown = [(one.name, one.key, one.figure_key(), one.log_name()) for one in built_in]
    assert shown == [
        ("Hit@1", "hit_at_one", "avg_hit_at_one", "Avg_Hit@1"),
        ("PERR", "perr", "avg_perr", "Avg_PERR"),
        ("mAP", "map", "map", "MAP"),
        ("GAP", "gap", "gap", "GAP"),
        ("MAP@100000 of rated pairs", "map_at_n", "map_at_n", "MAP@100000"),
        ("loss", "loss", "avg_loss", "Avg_Loss"),
        *((f"GAP {part}", f"gap_{part}", f"gap_{part}", f"GAP_{part}") for part in THIRDS),
        *((f"mAP {part}", f"map_{part}", f"map_{part}", f"MAP_{part}") for part in THIRDS),
    ]
    assert [one.key for one in built_in if not one.of_batches][:2] == ["map", "map_at_n"]
    details = [one for one in built_in if one.is_detail]
    assert names_of_details() == {one.name for one in details}
    assert [one.key.rpartition("_")[2] for one in details] == [*THIRDS, *THIRDS]
    assert not any(one.of_batches for one in details)
    assert [one.key for one in built_in if not one.higher_is_better] == ["loss"]
    assert [one.digits for one in built_in] == [3, 3, 3, 3, 3, 6] + 6 * [3]
    assert Loss.description() == Description("loss", "loss", higher_is_better=False, digits=6, percent=False)


def test_values_are_shown_with_their_digits_or_in_percent() -> None:
    assert Description("a", "a").text(0.12345) == "0.123"
    assert Description("a", "a", digits=1).text(0.16) == "0.2"
    assert Description("a", "a").text(0.12345, 4) == "0.1235"
    assert Description("a", "a", percent=True).text(0.12345) == "12.3 %"
    assert Description("a", "a", percent=True).text(0.12345, 1) == "12 %"


def test_gap_is_the_first_to_compare_by() -> None:
    assert [one.key for one in gap_first(load())][:6] == ["gap", "hit_at_one", "perr", "map", "map_at_n", "loss"]


def test_means_over_nothing_are_zero_but_that_of_losses_is_not_defined() -> None:
    nothing = RankedEntries(np.zeros(0, np.uint64), np.zeros(1, np.int64), 0)
    assert HitAtOne().compute(nothing) == 0
    assert math.isnan(Loss().compute(nothing))
    mean = HitAtOne(3.0, 4)
    mean.merge(HitAtOne(1.0, 1))
    assert (mean.total, mean.count, mean.compute(nothing)) == (4.0, 5, 0.8)


class Named(Metric):
    name, key = "Named", "named_2"

    def compute(self, ranked: RankedEntries) -> float | None:
        return None


class Failing(Named):
    def compute(self, ranked: RankedEntries) -> float:
        return 1 / ranked.num_examples


class OtherKey(Named):
    name = "Other"


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("own_metrics")
    kinds: list[Any] = [Named, Failing, OtherKey]
    kinds += [type(key, (Named,), {"key": key}) for key in ("Upper", "with-dash", "2nd", "gap")]
    kinds += [type("Twin", (Named,), {"name": "GAP"})]
    module.__dict__.update({kind.__name__: kind for kind in kinds}, number=3)
    monkeypatch.setitem(sys.modules, "own_metrics", module)


def test_own_metrics_follow_the_built_in_ones(own: None) -> None:
    assert load(["own_metrics:Named"]) == (*load(), Named)
    assert load(["own_metrics:Named"], reserved=["step"])[-1] is Named
    assert find("own_metrics:Named") is Named


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("own_metrics:number", r"^the metric 'own_metrics:number' .*class .*derived"),
        ("own_metrics:Description", "cannot load metric 'own_metrics:Description'"),
        ("Hit@2", "unknown metric 'Hit@2'"),
        ("own_metrics:Failing", "^the metric 'own_metrics:Failing' does not work .*: ZeroDivisionError"),
        ("own_metrics:Upper", "the key 'Upper' must consist of lower-case letters"),
        ("own_metrics:with-dash", "the key 'with-dash' must consist of"),
        ("own_metrics:2nd", "the key '2nd' must consist of"),
        ("own_metrics:gap", r"'Named' and .* 'gap', .*taken.* GAP, "),
        ("own_metrics:Twin", "^the metric own_metrics:Twin has the name 'GAP' and the key 'named_2'"),
    ],
)
def test_an_own_metric_that_cannot_be_is_refused(own: None, name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load([name])


def test_a_name_or_key_is_taken_once(own: None) -> None:
    for names, reserved in ((["Named", "OtherKey"], []), (["Named"], ["named_2"]), (["Named"], ["Named"])):
        with pytest.raises(UsageError, match=r"own_metrics:\w+ .*taken"):
            load([f"own_metrics:{name}" for name in names], reserved)
    assert Gap in load()


@pytest.mark.parametrize(("name", "found"), [("GAP", Gap), ("gap", Gap), ("hit@1", HitAtOne), ("loss", Loss)])
def test_a_metric_is_found_by_its_name_or_its_key(name: str, found: type[Metric]) -> None:
    assert find(name) is found


def test_an_unknown_metric_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=r"'GAPP' is not.*did you mean GAP\? .*Hit@1, PERR, mAP, GAP"):
        find("GAPP")


@pytest.mark.parametrize(
    ("key", "value", "has_labels", "why"),
    [
        ("gap_middle", float("nan"), True, "no class of the middle has a label"),
        ("map_tail", None, True, "no class of the tail has a label"),
        ("gap", 0.0, False, "no example has a label"),
        ("hit_at_one", 0.0, False, "no example has a label"),
        ("gap", 0.0, True, ""),
        ("gap_middle", 0.0, True, ""),
        ("loss", 0.3, False, ""),
        ("own", float("nan"), True, "it is not defined on these examples"),
    ],
)
def test_why_a_figure_says_nothing(key: str, value: float | None, has_labels: bool, why: str) -> None:
    assert why_undefined(key, value, has_labels) == why
