"""What a row is: a measurement, its targets, and its line in the table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.measure import QUIET, Measured

Measure = Callable[[int], Measured]

_FORMAT = "{:38s} {:>10s} {:>18s} {:>10s} {:>8s} {:>11s} {:>8s} {:>8s} {:>6s}  {}"


@dataclass(frozen=True)
class Row:
    """One thing that is timed.

    Attributes:
      measure: takes the number of repetitions, returns the samples; runs in a process of its own.
      rate: target in examples a second; None for no target.
      ratio: target share of the floor's speed.
      peak_mb: upper limit of peak memory, MB.
      own_mb: upper limit of peak memory without the pages of files, MB.
      within: upper limit of the seconds for one example.
      beside: upper limit of the share of time that is not in the floor.
      cpu_ratio: target share of the floor's speed by CPU time, for a row that works in fewer threads than its floor.
    """

    measure: Measure
    rate: float | None = None
    ratio: float | None = None
    peak_mb: float | None = None
    own_mb: float | None = None
    within: float | None = None
    beside: float | None = None
    cpu_ratio: float | None = None


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
        "; ".join([*result["notes"], *verdicts(row, result)]),
    )


def verdicts(row: Row, result: Mapping[str, Any]) -> list[str]:
    """The targets of a row, each with yes or no."""
    rate, ratio, by_cpu = (result.get(name, {}).get("median", math.nan) for name in ("rate", "ratio", "cpu_ratio"))
    seconds, beside, peak_mb, own_mb = 1 / rate, 1 - ratio, result["peak_mb"], result.get("own_mb", math.nan)
    checks: list[tuple[float | None, Callable[[float], tuple[bool, str]]]] = [
        (row.ratio, lambda least: (ratio >= least, f"at least {least:.0%} of the floor")),
        (row.rate, lambda least: (rate >= least, f"at least {number(least)} examples/s")),
        (row.cpu_ratio, lambda least: (by_cpu >= least, f"at least {least:.0%} of the floor by CPU time")),
        (row.within, lambda most: (seconds <= most, f"{seconds:.2f} s, at most {most} s")),
        (row.beside, lambda most: (beside < most, f"{beside:.1%} beside the floor, under {most:.0%}")),
        (row.peak_mb, lambda most: (peak_mb < most, f"under {most:,.0f} MB")),
        (row.own_mb, lambda most: (own_mb < most, f"{own_mb:,.0f} MB without files, under {most:,.0f}")),
    ]
    return [verdict(*check(target)) for target, check in checks if target is not None]


def verdict(is_reached: bool, target: str) -> str:
    """A target with yes or no."""
    return f"{'yes' if is_reached else 'NO'}: {target}"


def number(value: float) -> str:
    """A number as text; rates range from a few program starts a second to thousands of examples."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
