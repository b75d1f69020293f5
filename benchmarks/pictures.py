"""`python -m benchmarks.pictures bench.json growth.png`: draws the rows `growth/...` of a result."""

from __future__ import annotations

import json
import pathlib
import sys

import matplotlib

from benchmarks import growth


def main() -> None:
    """Draws two panels against the size: CPU time an example relative to the smallest size, and peak memory in MB."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = json.loads(pathlib.Path(sys.argv[1]).read_text())["rows"]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for axis in dict.fromkeys(name.rpartition(" x ")[0] for name in rows if name.startswith("growth/")):
        results = [rows[f"{axis} x {size}"] for size in growth.SIZES]
        rates = [result["cpu_rate"]["median"] for result in results]
        left.plot(growth.SIZES, [rates[0] / rate for rate in rates], marker="o", label=axis.removeprefix("growth/"))
        right.plot(growth.SIZES, [result["peak_mb"] for result in results], marker="o")
    left.set(xscale="log", yscale="log", xlabel="size", title="CPU time an example, x 1 = 1")
    left.set_yticks(growth.SIZES, [f"x {size}" for size in growth.SIZES], minor=False)
    right.set(xscale="log", xlabel="size", title="peak memory, MB", ylim=(0, None))
    for panel in (left, right):
        panel.set_xticks(growth.SIZES, [f"x {size}" for size in growth.SIZES], minor=False)
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    left.legend(fontsize="small")
    figure.savefig(sys.argv[2], dpi=90)


if __name__ == "__main__":
    main()
