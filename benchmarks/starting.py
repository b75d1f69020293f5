"""What a person waits for: a page of help, and the first step of a training."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from benchmarks import data
from benchmarks.measure import Measured, Sample


def overview(repeats: int) -> Measured:
    """`yt8m --help`, the interpreter's own start included."""
    return _timed(["-m", "yt8m.cli", "--help"], repeats)


def first_step(repeats: int) -> Measured:
    """From the start of the process to the end of one step of LogisticModel and of the program."""
    with tempfile.TemporaryDirectory() as folder:
        return _timed(
            [
                *("-m", "yt8m.cli", "train", f"--train_data_pattern={data.shards('video')}"),
                *("--max_steps=1", f"--train_dir={folder}", "--start_new_model"),
            ],
            repeats,
        )


def _timed(words: Sequence[str], repeats: int) -> Measured:
    """Seconds of the whole process; of its CPU time nothing is known."""
    measured = Measured(1, [], [])
    for _ in range(repeats + 1):
        start = time.perf_counter()
        done = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
        seconds = time.perf_counter() - start
        if done.returncode:
            raise SystemExit(done.stderr)
        measured.samples.append(Sample(seconds, seconds))
    del measured.samples[0]  # fills the page cache
    return measured
