"""Start-up times: a page of help, and the first step of a training."""

from __future__ import annotations

import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence

from benchmarks import data
from benchmarks.measure import Measured, Sample, cpu_seconds
from yt8m.lazy import tf

_TOLD_IN = "YT8M_BENCH_TOLD_IN"


def overview(repeats: int) -> Measured:
    """`yt8m --help`, the interpreter's own start included."""
    _process(["-m", "yt8m.cli", "--help"])  # fills the page cache
    return Measured(1, [_process(["-m", "yt8m.cli", "--help"]) for _ in range(repeats)], [])


def first_step(repeats: int) -> Measured:
    """Times the start up to the end of LogisticModel's first step. The floor only imports TensorFlow."""
    measured = Measured(1, [], [])
    for _ in range(repeats + 1):
        measured.samples.append(_first_step())
        measured.floors.append(_process(["-c", "import tensorflow"]))
    del measured.samples[0]
    return measured


def _first_step() -> Sample:
    """Times from process start to the end of step 1; the checkpoint and export after it are left out."""
    with tempfile.TemporaryDirectory() as folder:
        told = pathlib.Path(folder, "told")
        start = time.time()
        _process(
            [
                *("-m", "yt8m.cli", "train", f"--train_data_pattern={data.shards('video')}"),
                *("--max_steps=1", f"--train_dir={folder}/run", f"--callbacks={__name__}:told"),
            ],
            {_TOLD_IN: str(told)},
        )
        end, cpu = map(float, told.read_text().split())
        return Sample(end - start, cpu)


def told() -> tf.train.SessionRunHook:
    """A callback that records the time and the process's CPU time after the first step."""

    class Told(tf.train.SessionRunHook):
        def after_run(self, run_context: object, run_values: object) -> None:
            path = pathlib.Path(os.environ[_TOLD_IN])
            path.write_text(f"{time.time()} {cpu_seconds(resource.RUSAGE_SELF)}")

    return Told()


def _process(words: Sequence[str], told: dict[str, str] | None = None) -> Sample:
    """Times a process of this Python. Its modules are compiled already, as in all starts except the first."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before, start = cpu_seconds(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [sys.executable, *words], env={**environment, **(told or {})}, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return Sample(time.perf_counter() - start, cpu_seconds(resource.RUSAGE_CHILDREN) - before)
