"""What the benchmark of several processes computes on paper, and its table."""

from __future__ import annotations

import pytest

from benchmarks import exchange


def test_on_paper_a_ring_sends_little_more_than_twice_the_gradients() -> None:
    """From 2 to 64 machines the ring's share grows from 1 to almost 2; a server has 2, or 4, times the gradients."""
    size = 4.0 * exchange.WEIGHTS
    rates = dict.fromkeys(exchange.KINDS, size / 0.1)  # the gradients take 0.1 s
    two, many = (exchange.on_paper(0.5, rates, n) for n in (2, 64))
    assert two["all-reduce float32"] == pytest.approx(0.5 + 0.1 + 2 * exchange.LATENCY)
    assert many["all-reduce float32"] == pytest.approx(0.5 + 2 * 63 / 64 * 0.1 + 126 * exchange.LATENCY)
    assert many["all-reduce bfloat16"] == pytest.approx(0.5 + 63 / 64 * 0.1 + 126 * exchange.LATENCY)
    assert two["parameter server"] == pytest.approx(0.5 + 2 * 0.1 + 2 * exchange.LATENCY)
    assert many["parameter server"] == pytest.approx(0.5 + 4 * 0.1 + 2 * exchange.LATENCY)
    fast = exchange.on_paper(0.5, dict.fromkeys(exchange.KINDS, 1e12), 2)
    assert fast["all-reduce float32"] == pytest.approx(0.5 + size / exchange.NETWORK + 2 * exchange.LATENCY)


def test_ratios_are_medians_of_rounds() -> None:
    found = {(kind, 2): [0.2, 0.4, 0.3] for kind in exchange.KINDS}
    found["all-reduce float32", 2] = [0.3, 0.4, 0.6]
    lines = exchange.table([2], [0.1, 0.1, 0.1], found).splitlines()
    assert lines[3] == "| parameter server | 300 ms (1.00) |"
    assert lines[4] == "| all-reduce float32 | 400 ms (1.50) |"
    assert lines[-1] == "one process alone: 100 ms"
