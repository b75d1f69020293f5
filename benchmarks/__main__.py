"""`python -m benchmarks [--rows 'train/*'] [--repeat 5] [--json bench.json]`."""

from __future__ import annotations

import argparse
import fnmatch
import json
import pathlib
import subprocess
import sys
from typing import Any

from benchmarks import machine, report
from benchmarks.catalogue import ROWS


def main() -> int:
    """Runs the rows one after the other and prints them."""
    arguments = _arguments()
    names = [name for name in ROWS if fnmatch.fnmatch(name, arguments.rows)]
    if not names:
        print(f"no row matches {arguments.rows!r}; there are: {', '.join(ROWS)}", file=sys.stderr)
        return 2
    others = machine.load()
    print(machine.describe(others), report.heading(), sep="\n\n", flush=True)
    results = {}
    for name in names:
        results[name] = _run(name, arguments.repeat)
        print(report.line(name, ROWS[name], results[name]), flush=True)
    if arguments.json:
        text = json.dumps({"machine": machine.describe(others), "rows": results}, indent=1)
        pathlib.Path(arguments.json).write_text(text + "\n")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", default="*", help="names of rows, with * as in a shell")
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
