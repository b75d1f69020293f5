"""The results as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.machine import QUIET
from benchmarks.rows import Row

_FORMAT = "{:30s} {:>10s} {:>18s} {:>10s} {:>8s} {:>11s} {:>8s} {:>8s} {:>6s}  {}"


def heading() -> str:
    """The column heads: medians with minimum and maximum, by the clock and, as a cross-check, by CPU time."""
    return _FORMAT.format(
        *("row", "examples/s", "least..most", "a core-s", "of floor", "least..most", "by cpu", "peak MB"),
        *("others", ""),
    )


def line(name: str, row: Row, result: Mapping[str, Any]) -> str:
    """One row; `others` are the cores that other programs used meanwhile."""
    rate, ratio = result["rate"], result.get("ratio")
    return _FORMAT.format(
        name,
        number(rate["median"]),
        "..".join(number(rate[end]) for end in ("low", "high")),
        number(result["cpu_rate"]["median"]),
        f"{ratio['median']:.0%}" if ratio else "",
        f"{ratio['low']:.0%}..{ratio['high']:.0%}" if ratio else "",
        f"{result['cpu_ratio']['median']:.0%}" if ratio else "",
        f"{result['peak_mb']:,.0f}",
        f"{result['others']:.1f}" + (" !" if result["others"] > QUIET else ""),
        "; ".join([*_latency(result), *_fuller(result), *verdicts(row, result)]),
    )


def _latency(result: Mapping[str, Any]) -> list[str]:
    """The latency of requests, also as multiples of the floor's median call."""
    if "latency" not in result:
        return []
    p50, p99, bare = (result["latency"][name] for name in ("p50", "p99", "bare"))
    return [f"p50 {1000 * p50:.1f} ms, p99 {1000 * p99:.1f} ms: {p50 / bare:.1f} and {p99 / bare:.1f} bare calls"]


def _fuller(result: Mapping[str, Any]) -> list[str]:
    """The ratios to the floor that holds more than the one of the columns."""
    if "fuller" not in result:
        return []
    name, ratio, cpu_ratio = (result["fuller"][part] for part in ("name", "ratio", "cpu_ratio"))
    spread = f"{ratio['low']:.0%}..{ratio['high']:.0%}"
    return [f"{ratio['median']:.0%} of {name} ({spread}; by cpu {cpu_ratio['median']:.0%})"]


def verdicts(row: Row, result: Mapping[str, Any]) -> list[str]:
    """The targets of a row, each with yes or no."""
    found = []
    speeds = []
    if row.ratio is not None:
        speeds.append((result["ratio"]["median"] >= row.ratio, f"at least {row.ratio:.0%} of the floor"))
    if row.rate is not None:
        speeds.append((result["rate"]["median"] >= row.rate, f"at least {number(row.rate)} examples/s"))
    if speeds:
        found.append(f"{_yes(any(good for good, _ in speeds))} {' or '.join(what for _, what in speeds)}")
    if row.cpu_ratio is not None:
        reached = result["cpu_ratio"]["median"] >= row.cpu_ratio
        found.append(f"{_yes(reached)} at least {row.cpu_ratio:.0%} of the floor by CPU time")
    if row.within is not None:
        seconds = 1 / result["rate"]["median"]
        found.append(f"{_yes(seconds <= row.within)} {seconds:.2f} s, at most {row.within} s")
    if row.beside is not None:
        share = 1 - result["ratio"]["median"]
        found.append(f"{_yes(share < row.beside)} {share:.1%} beside the floor, under {row.beside:.0%}")
    if row.peak_mb is not None:
        found.append(f"{_yes(result['peak_mb'] < row.peak_mb)} under {row.peak_mb:,.0f} MB")
    return found


def _yes(reached: bool) -> str:
    return "yes:" if reached else "NO:"


def number(value: float) -> str:
    """A number as text; rates range from a few program starts a second to thousands of examples."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
