"""MeanAveragePrecisionCalculator: recorded figures, and class by class against the single list."""

from __future__ import annotations

import numpy as np
import pytest
from golden_data import golden

from yt8m.eval_util import AveragePrecisionCalculator, MeanAveragePrecisionCalculator


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


def test_refusals() -> None:
    with pytest.raises(ValueError, match="num_class"):
        MeanAveragePrecisionCalculator(0)
    calculator = MeanAveragePrecisionCalculator(2)
    with pytest.raises(ValueError, match="2 lists"):
        calculator.accumulate([[0.1]], [[1]])
    with pytest.raises(ValueError, match="equal lengths"):
        calculator.accumulate([[0.1], [0.2]], [[1], [1, 0]])
    with pytest.raises(ValueError, match="counts"):
        calculator.accumulate([[0.1], [0.2]], [[1], [1]], [1, -1])
