"""The trend of a whole run's rates, from which `make bench-whole` says whether the run stays as fast as it began."""

import pytest

from benchmarks.whole import on_paper, trend


def test_the_trend_of_a_line_is_its_change_over_its_median():
    assert trend([10, 11, 12, 13, 14]) == pytest.approx(4 / 12)
    assert trend([14, 13, 12, 11, 10]) == pytest.approx(-4 / 12)
    assert trend([7] * 30) == 0


def test_single_slow_lines_do_not_change_the_trend():
    rates = [100.0] * 30
    rates[2], rates[29], rates[15] = 20, 60, 180
    assert trend(rates) == 0


def test_a_disk_needs_at_least_the_time_to_read_every_byte():
    assert on_paper(250_000) == "0.97 TB: at least 32 min at 500 MB/s, 5 min at 3 GB/s"
