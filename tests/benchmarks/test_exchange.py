"""What the benchmark of several processes computes on paper."""

from __future__ import annotations

import pytest

from benchmarks import exchange


def test_on_paper_a_ring_sends_little_more_than_twice_the_gradients() -> None:
    """From 2 to 64 machines the ring's share grows from 1 to almost 2; a server has 2, or 4, times the gradients."""
    size = 4.0 * exchange.WEIGHTS
    servers, float32, bfloat16 = exchange.KINDS

    def seconds(kind: str, machines: int, rate: float = size / 0.1) -> float:  # the gradients take 0.1 s
        return exchange.on_paper(kind, 0.5, rate, machines)

    assert seconds(float32, 2) == pytest.approx(0.5 + 0.1 + 2 * exchange.LATENCY)
    assert seconds(float32, 64) == pytest.approx(0.5 + 2 * 63 / 64 * 0.1 + 126 * exchange.LATENCY)
    assert seconds(bfloat16, 64) == pytest.approx(0.5 + 63 / 64 * 0.1 + 126 * exchange.LATENCY)
    assert seconds(servers, 2) == pytest.approx(0.5 + 2 * 0.1 + 2 * exchange.LATENCY)
    assert seconds(servers, 64) == pytest.approx(0.5 + 4 * 0.1 + 2 * exchange.LATENCY)
    assert seconds(float32, 2, 1e12) == pytest.approx(0.5 + size / exchange.NETWORK + 2 * exchange.LATENCY)
