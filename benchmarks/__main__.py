"""`python -m benchmarks [--rows 'train/*'] [--repeat 5] [--json bench.json]`."""

from __future__ import annotations

import argparse
import fnmatch
import json
import pathlib
import subprocess
import sys
from typing import Any

from benchmarks import machine, rows
from benchmarks.catalogue import LONG_ROWS, ROWS


def main() -> int:
    """Runs the rows one after the other and prints them."""
    arguments = _arguments()
    every = ROWS | LONG_ROWS
    names = [name for name in every if fnmatch.fnmatch(name, arguments.rows)] if arguments.rows else list(ROWS)
    if not names:
        print(f"no row matches {arguments.rows!r}; there are: {', '.join(every)}", file=sys.stderr)
        return 2
    others = machine.load()
    print(machine.describe(others), rows.heading(), sep="\n\n", flush=True)
    results = {}
    for name in names:
        results[name] = _run(name, arguments.repeat)
        print(rows.line(name, every[name], results[name]), flush=True)
    if arguments.json:
        text = json.dumps({"machine": machine.describe(others), "rows": results}, indent=1)
        pathlib.Path(arguments.json).write_text(text + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", help="names of rows, with * as in a shell [all but those that take long]")
    parser.add_argument("--repeat", type=int, default=5, help="repetitions of each row")
    parser.add_argument("--json", help="file to write the results to; compare two by -m benchmarks.compare")
    return parser.parse_args()


def _run(name: str, repeats: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.worker", name, str(repeats)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    sys.exit(main())
