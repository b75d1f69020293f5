"""What the benchmark of several processes computes on paper, and its table."""

from __future__ import annotations

import pathlib

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


def test_an_interrupted_run_goes_on_with_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    asked: list[tuple[str, int]] = []

    def measured(kind: str, processes: int) -> float:
        asked.append((kind, processes))
        if len(asked) == 7:
            raise KeyboardInterrupt
        return float(len(asked))

    monkeypatch.setattr(exchange, "measured", measured)
    file = str(tmp_path / "rounds.json")
    with pytest.raises(KeyboardInterrupt):
        exchange._with_earlier([2], 2, file)
    rounds = exchange._with_earlier([2], 2, file)
    assert asked[6] == asked[7]  # the one that was interrupted; the six before it are in the file
    assert len(asked) == 11
    assert sorted(value for times in rounds for value in times.values()) == [1, 2, 3, 4, 5, 6, 8, 9, 10, 11]
