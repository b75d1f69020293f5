"""`python -m benchmarks.peers [--rows 'step/*'] [--repeat 5] [--json peers.json]`: this project beside PyTorch.

Needs torch and torchmetrics, which this project does not install: pip install torch torchmetrics
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib.util
import json
import pathlib
import sys
import tempfile
from typing import Any

import numpy as np

from benchmarks import machine
from benchmarks.measure import Others, Sample, spread
from benchmarks.peers.rows import CONTESTANTS, ROWS, Row
from benchmarks.peers.turns import Contestant
from benchmarks.report import number

_FORMAT = "{:30s} {:>22s} {:>22s} {:>22s} {:>9s} {:>9s} {:>12s} {:>7s}  {}"
# The largest relative difference of losses. The operands of bfloat16 products have 8 bits (4e-3), and the contestants
# round others of them: this project all products, PyTorch what its autocast lists.
AGREES = {"float32": 1e-4, "bfloat16": 2e-2}


def main() -> int:
    """Runs the rows one after the other and prints them."""
    arguments = _arguments()
    names = [name for name in ROWS if fnmatch.fnmatch(name, arguments.rows)]
    if not names:
        print(f"no row matches {arguments.rows!r}; there are: {', '.join(ROWS)}", file=sys.stderr)
        return 2
    if missing := [name for name in ("torch", "torchmetrics") if importlib.util.find_spec(name) is None]:
        print(f"not installed: {', '.join(missing)}; pip install {' '.join(missing)}", file=sys.stderr)
        return 1
    print(machine.describe(machine.load()), _heading(), sep="\n\n", flush=True)
    results = {}
    for name in names:
        results[name] = compare(ROWS[name], arguments.repeat)
        print(line(ROWS[name], results[name]), flush=True)
    if arguments.json:
        pathlib.Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--rows", default="*", help="names of rows, with * as in a shell")
    parser.add_argument("--repeat", type=int, default=5, help="turns of each contestant")
    parser.add_argument("--json", help="file to write the results to")
    return parser.parse_args()


def compare(row: Row, repeats: int) -> dict[str, Any]:
    """The samples of every contestant, taken in turn after one untimed turn; and how much the first losses differ."""
    others = Others()
    with tempfile.TemporaryDirectory() as folder:
        contestants = [
            Contestant(name, row.name, folder) for name in CONTESTANTS
        ]  # the first stores data for the others
        samples: dict[str, list[Sample]] = {name: [] for name in CONTESTANTS}
        for _ in range(repeats + 1):
            for contestant in contestants:
                samples[contestant.name].append(contestant.turn())
        for contestant in contestants:
            contestant.close()
    batch = row.network.batch
    ours, *theirs = (contestant.told for contestant in contestants)
    return {
        "rate": {name: spread([batch / sample.seconds for sample in taken[1:]]) for name, taken in samples.items()},
        "cpu_rate": {name: spread([batch / sample.cpu for sample in taken[1:]]) for name, taken in samples.items()},
        "others": others.cores(),
        "differs": max(float(np.max(np.abs(np.subtract(told, ours)) / ours)) for told in theirs) if ours else None,
    }


def _heading() -> str:
    columns = (*CONTESTANTS, "of best", "by cpu", "losses", "others")
    return _FORMAT.format("row", *columns, "")


def line(row: Row, result: dict[str, Any]) -> str:
    """One row: examples a second as median (least..most), and this project's rate over that of the best peer."""
    ratio, cpu_ratio = (ratio_to_best(result[key]) for key in ("rate", "cpu_rate"))
    return _FORMAT.format(
        row.name,
        *(_rates(result["rate"][name]) for name in CONTESTANTS),
        f"{ratio:.2f}",
        f"{cpu_ratio:.2f}",
        _agreement(row, result["differs"]),
        f"{result['others']:.1f}" + (" !" if result["others"] > machine.QUIET else ""),
        f"{'yes' if ratio >= row.goal and agrees(row, result['differs']) else 'NO'}: at least {row.goal}",
    )


def ratio_to_best(rates: dict[str, dict[str, float]]) -> float:
    """The median rate of this project over that of the faster peer."""
    ours, *theirs = (rates[name]["median"] for name in CONTESTANTS)
    return ours / max(theirs)


def agrees(row: Row, differs: float | None) -> bool:
    """Whether all contestants compute the same; True for rows whose losses are not compared."""
    return differs is None or differs <= AGREES[row.precision]


def _agreement(row: Row, differs: float | None) -> str:
    if differs is None:
        return ""
    return f"{differs:.0e}" + ("" if agrees(row, differs) else " NO")


def _rates(found: dict[str, float]) -> str:
    return f"{number(found['median'])} ({number(found['low'])}..{number(found['high'])})"


if __name__ == "__main__":
    sys.exit(main())
