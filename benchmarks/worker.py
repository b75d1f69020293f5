"""One row in a process of its own, so that its peak memory is its own too."""

from __future__ import annotations

import json
import sys

from benchmarks.catalogue import LONG_ROWS, ROWS
from benchmarks.measure import watched


def main() -> None:
    """Measures the row named on the command line; prints the result as the last line of stdout."""
    name, repeats = sys.argv[1:]
    print(json.dumps(watched((ROWS | LONG_ROWS)[name].measure, int(repeats))))


if __name__ == "__main__":
    main()
