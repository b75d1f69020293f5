"""`python -m benchmarks [--rows 'train/*'] [--repeat 5] [--minutes 60] [--json bench.json]`."""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import math
import pathlib
import platform
import sys
import time
from importlib import metadata
from typing import Any

from benchmarks import measure, rows
from benchmarks.catalogue import LONG_ROWS, ROWS


def main() -> int:
    """Runs the rows, each in a process of its own, and prints them."""
    arguments, every = _arguments(), ROWS | LONG_ROWS
    if arguments.worker:  # a process of its own, so that its peak memory is that of the row
        print(json.dumps(measure.watched(every[arguments.worker].measure, arguments.repeat)))
        return 0
    patterns = arguments.rows or []
    names = [name for name in every if any(fnmatch.fnmatch(name, one) for one in patterns)] or list(ROWS)
    if unknown := [one for one in patterns if not fnmatch.filter(every, one)]:
        print(f"no row matches {unknown[0]!r}; there are: {', '.join(every)}", file=sys.stderr)
        return 2
    head = {"processor": measure.describe_processor(), "machine": _describe_machine()}
    print(*head.values(), rows.heading(), sep="\n\n", flush=True)
    results: dict[str, Any] = {}
    begun = time.monotonic()
    end = begun + 60 * arguments.minutes
    for name in names:
        try:
            results[name] = _measure(name, arguments.repeat, end)
        except SystemExit as error:  # the rows after it are measured all the same
            print(f"{name:38s} FAILED: {error}", flush=True)
            continue
        print(rows.line(name, every[name], results[name]), flush=True)
        if arguments.json:  # after each row: an interruption leaves the rows before it
            found = {**head, "minutes": (time.monotonic() - begun) / 60, "rows": results}
            measure.write_beside(pathlib.Path(arguments.json), json.dumps(found, indent=1) + "\n")
    return 0 if len(results) == len(names) else 1


def _measure(name: str, repeats: int, end: float) -> Any:
    """A row, which is given up when `time.monotonic()` says `end`."""
    seconds = end - time.monotonic()
    if seconds <= 0:
        raise SystemExit("not begun: the time is over")
    words = (sys.executable, "-m", "benchmarks", f"--worker={name}", f"--repeat={repeats}")
    return json.loads(measure.run_process(words, seconds=None if math.isinf(end) else seconds).splitlines()[-1])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rows", nargs="+", help="names of rows, with * as in a shell [all but those that take long]")
    parser.add_argument("--repeat", type=int, default=5, help="repetitions of each row")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="after which no row is begun, and the one that runs is given up"
    )
    parser.add_argument("--json", help="file to write the results to; compare two by -m benchmarks.compare")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args()


def _describe_machine() -> str:
    """One line on the machine, with a warning if other programs used it while this process slept for a second."""
    others = measure.Others()
    time.sleep(1.0)
    used = others.cores()
    line = f"{measure.cores()} cores, {platform.machine()}, Python {platform.python_version()}{_versions()}"
    if used < measure.QUIET:
        return f"{line}; quiet"
    return (
        f"{line}; NOT QUIET: other programs use {used:.1f} cores. Rates are too low then; "
        "ratios, taken side by side, suffer less."
    )


def _versions() -> str:
    """Those of TensorFlow and PyTorch, each after a comma, if it is installed."""
    lines = ""
    for package, name in (("tensorflow", "TensorFlow"), ("torch", "PyTorch")):
        with contextlib.suppress(metadata.PackageNotFoundError):
            lines += f", {name} {metadata.version(package)}"
    return lines


if __name__ == "__main__":
    sys.exit(main())
