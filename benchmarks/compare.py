"""`python -m benchmarks.compare before.json after.json`: what became faster or slower."""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

from benchmarks.rows import number


def main(paths: list[str]) -> int:
    """Prints one line for each row that both files have."""
    if len(paths) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    before, after = (json.loads(pathlib.Path(path).read_text())["rows"] for path in paths)
    print(f"{'row':30s} {'by':>10s} {'before':>10s} {'after':>10s} {'change':>8s}")
    for name in before:
        if name in after:
            print(compared(name, before[name], after[name]))
    return 0


def compared(name: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """One line. It compares ratios to the floor if the row has a floor, since rates drift with the machine."""
    by, shown = ("ratio", "{:.1%}".format) if "ratio" in before and "ratio" in after else ("rate", number)
    old, new = before[by], after[by]
    apart = new["low"] > old["high"] or new["high"] < old["low"]
    medians = [shown(old["median"]), shown(new["median"])]
    change = new["median"] / old["median"] - 1
    note = "" if apart else "  (the spreads overlap)"
    return f"{name:30s} {by:>10s} {medians[0]:>10s} {medians[1]:>10s} {change:>+8.1%}{note}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
