"""The trend of a whole run's rates, from which `make bench-whole` says whether the run stays as fast as it began."""

import pytest

from benchmarks.whole import trend


def test_the_trend_of_a_line_is_its_change_over_its_median():
    assert trend([10, 11, 12, 13, 14]) == pytest.approx(4 / 12)
    assert trend([14, 13, 12, 11, 10]) == pytest.approx(-4 / 12)
    assert trend([7] * 30) == 0


def test_single_slow_lines_do_not_change_the_trend():
    rates = [100.0] * 30
    rates[2], rates[29], rates[15] = 20, 60, 180
    assert trend(rates) == 0
