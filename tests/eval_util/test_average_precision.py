"""Average precision, of one list and by class: recorded figures, scikit-learn, brute force over all orders of ties."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from golden_data import golden
from hypothesis import given
from hypothesis import strategies as st
from laws import examples
from sklearn.metrics import average_precision_score

from yt8m.eval_util import AveragePrecisionCalculator, MeanAveragePrecisionCalculator

ap, ap_at_n = AveragePrecisionCalculator.ap, AveragePrecisionCalculator.ap_at_n
ITEMS = st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=6)


def by_hand(hits: list[bool], n: int | None, total: int) -> float:
    ranks = [rank for rank, hit in enumerate(hits[:n], 1) if hit]
    total = total if n is None else min(total, n)
    return sum(count / rank for count, rank in enumerate(ranks, 1)) / total if total else 0.0


@pytest.fixture
def recorded() -> dict[str, np.ndarray]:
    with np.load(golden("metrics.npz")) as arrays:
        return {key[3:]: arrays[key] for key in arrays.files if key.startswith("ap/")}


def test_recorded_lists(recorded: dict[str, np.ndarray]) -> None:
    items = recorded["predictions"], recorded["actuals"]
    assert ap(*items) == pytest.approx(recorded["ap"], rel=1e-6)
    for row, n in enumerate(recorded["n"]):
        assert ap_at_n(*items, n=int(n)) == pytest.approx(recorded["ap_at_n"][row], rel=1e-6)
        for column, total in enumerate(recorded["total_num_positives"]):
            found = ap_at_n(*items, n=int(n), total_num_positives=int(total))
            assert found == pytest.approx(recorded["ap_at_n_total"][row, column], rel=1e-6)
            found = ap_at_n(*items, n=None, total_num_positives=int(total))
            assert found == pytest.approx(recorded["ap_total"][column], rel=1e-6)
    assert ap(items[0], np.zeros(300)) == recorded["empty_actuals"]
    assert ap(recorded["tied_predictions"], items[1]) == pytest.approx(recorded["tied_ap"], abs=0.01)


@pytest.mark.parametrize("extra", [0, 2])
def test_recorded_parts(recorded: dict[str, np.ndarray], extra: int) -> None:
    name = "heap_ap_extra_positives" if extra else "heap_ap"
    for top_n, expected in zip(recorded["heap_top_n"], recorded[name], strict=True):
        calculator = AveragePrecisionCalculator(int(top_n))
        for part in map(slice, recorded["parts"][:-1], recorded["parts"][1:]):
            actuals = recorded["actuals"][part]
            calculator.accumulate(recorded["predictions"][part], actuals, actuals.sum() + extra if extra else None)
        assert calculator.peek_ap_at_n() == pytest.approx(expected, rel=1e-6)
        assert calculator.heap_size == min(top_n, 300)
        parts = len(recorded["parts"]) - 1
        assert calculator.num_accumulated_positives == recorded["actuals"].sum() + extra * parts


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.randoms(use_true_random=False))
def test_equals_scikit_learn_without_ties(hits: list[bool], random: object) -> None:
    scores = np.random.default_rng(len(hits)).permutation(len(hits)).astype(float)
    expected = average_precision_score(hits, scores) if any(hits) else 0.0
    assert ap(scores, hits) == pytest.approx(expected)


@examples(60)
@given(ITEMS, st.one_of(st.none(), st.integers(1, 7)), st.integers(0, 2))
def test_ties_are_the_mean_over_all_orders(items: list, n: int | None, missing: int) -> None:
    scores, hits = [score for score, _ in items], [hit for _, hit in items]
    total = sum(hits) + missing
    # A stable sort of every order of arrival gives every order of the tied items equally often.
    orders = [sorted(order, key=lambda item: -item[0]) for order in itertools.permutations(items)]
    expected = np.mean([by_hand([hit for _, hit in order], n, total) for order in orders])
    assert ap_at_n(scores, hits, n, total) == pytest.approx(expected, abs=1e-12)


def test_a_long_list_in_parts_keeps_little() -> None:
    draw = np.random.default_rng(2)
    scores, hits = draw.integers(0, 5000, 50_000) / 7, draw.random(50_000) < 0.3
    calculator = AveragePrecisionCalculator(top_n=30)
    for part in np.array_split(np.arange(50_000), 101):
        calculator.accumulate(scores[part], hits[part])
    assert calculator.peek_ap_at_n() == pytest.approx(ap_at_n(scores, hits, 30))
    assert calculator.heap_size == 30
    assert sum(len(part[0]) for part in calculator._items._parts) < 10_000


def test_double_precision_is_kept() -> None:
    assert ap([1.0, 1.0 + 1e-12], [1, 0]) == 0.5


def test_refusals() -> None:
    for wrong in (0, -1, 2.5):
        with pytest.raises(ValueError, match="positive integer"):
            AveragePrecisionCalculator(wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="positive integer"):
        ap_at_n([1.0], [1], n=0)
    with pytest.raises(ValueError, match="shape"):
        ap([1.0, 2.0], [1])
    with pytest.raises(ValueError, match="one list"):
        ap([[1.0]], [[1]])
    with pytest.raises(ValueError, match="NaN"):
        ap([1.0, np.nan], [1, 0])
    with pytest.raises(ValueError, match="num_positives"):
        AveragePrecisionCalculator().accumulate([1.0], [1], num_positives=-1)


def test_clear_and_never_fed() -> None:
    calculator = AveragePrecisionCalculator()
    assert calculator.peek_ap_at_n() == 0
    calculator.accumulate([0.2, 0.1], [0, 1])
    assert (calculator.heap_size, calculator.num_accumulated_positives) == (2, 1)
    assert calculator.peek_ap_at_n() == 0.5
    calculator.clear()
    assert (calculator.heap_size, calculator.num_accumulated_positives, calculator.peek_ap_at_n()) == (0, 0, 0)


@pytest.mark.parametrize("filtered", [True, False])
def test_recorded(filtered: bool) -> None:
    with np.load(golden("metrics.npz")) as arrays:
        calculator = MeanAveragePrecisionCalculator(6, filter_empty_classes=filtered)
        calculator.accumulate(arrays["map/predictions"], arrays["map/actuals"])
        expected = arrays[f"map/aps_filter_{filtered}"]
    np.testing.assert_allclose(calculator.peek_map_at_n(), expected, rtol=1e-6)


@pytest.mark.parametrize("top_n", [None, 3])
def test_lists_of_unequal_length_in_parts(top_n: int | None) -> None:
    draw = np.random.default_rng(3)
    calculator = MeanAveragePrecisionCalculator(4, filter_empty_classes=False, top_n=top_n)
    single = [AveragePrecisionCalculator(top_n) for _ in range(4)]
    for lengths in ([3, 0, 9, 1], [0, 0, 5, 7]):
        scores = [draw.integers(0, 4, n) / 4 for n in lengths]
        actuals = [draw.integers(0, 2, n) for n in lengths]
        positives = [int(part.sum()) + 1 for part in actuals]
        calculator.accumulate(scores, actuals, positives)
        for one, *part in zip(single, scores, actuals, positives, strict=True):
            one.accumulate(*part)
    np.testing.assert_allclose(calculator.peek_map_at_n(), [one.peek_ap_at_n() for one in single])


def test_empty_and_cleared() -> None:
    calculator = MeanAveragePrecisionCalculator(2)
    assert calculator.is_empty()
    assert len(calculator.peek_map_at_n()) == 0
    calculator.accumulate([[0.5], []], [[1], []])
    assert not calculator.is_empty()
    np.testing.assert_array_equal(calculator.peek_map_at_n(), [1.0])
    calculator.clear()
    assert calculator.is_empty()


def test_one_class() -> None:
    calculator = MeanAveragePrecisionCalculator(1)
    calculator.accumulate([[0.1, 0.2]], [[1, 0]])
    np.testing.assert_array_equal(calculator.peek_map_at_n(), [0.5])


def test_refusals_by_class() -> None:
    with pytest.raises(ValueError, match="num_class"):
        MeanAveragePrecisionCalculator(0)
    calculator = MeanAveragePrecisionCalculator(2)
    with pytest.raises(ValueError, match="2 lists"):
        calculator.accumulate([[0.1]], [[1]])
    with pytest.raises(ValueError, match=r"class 1\b.*\b1 predictions.*\b2 actuals"):
        calculator.accumulate([[0.1], [0.2]], [[1], [1, 0]])
    with pytest.raises(ValueError, match=r"num_positives\b.*\b2 counts.*\b2\b.*-1\b"):
        calculator.accumulate([[0.1], [0.2]], [[1], [1]], [1, -1])


def test_a_class_may_have_no_positive_but_not_fewer() -> None:
    calculator = MeanAveragePrecisionCalculator(2, filter_empty_classes=False)
    calculator.accumulate([[0.5], [0.4]], [[1], [0]], num_positives=[1, 0])
    assert calculator.peek_map_at_n().tolist() == [1.0, 0.0]
    with pytest.raises(ValueError, match="num_positives must be 2 counts, each 0 or more"):
        calculator.accumulate([[0.5], [0.4]], [[1], [0]], num_positives=[1, -1])
