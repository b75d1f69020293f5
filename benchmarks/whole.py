"""`python -m benchmarks.whole [--videos 400000] [--frames 8000]`: whole runs as people start them.

One pass over generated records: trained, evaluated and predicted by the commands, with the checkpoints, summaries and
figures that they write by default. Everything counts: the start of the processes, the last checkpoint, the export.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks import machine
from benchmarks.measure import Others
from yt8m.datasets.sample_data import SampleConfig, generate_once

_FOLDER = pathlib.Path("build", "benchmarks")
_WHOLE_DATA_SET = 3_900_000  # videos of YouTube-8M's training set
_FLAT = 0.05  # allowed difference between the rates of the first and the last tenth
_FORMAT = "{:36s} {:>10s} {:>9s} {:>11s} {:>9s} {:>9s} {:>7s}  {}"


class Work(NamedTuple):
    """One kind of records, the model that is trained on them, its flags, and more flags for training alone."""

    level: str
    model: str
    flags: Sequence[str]
    training: Sequence[str] = ()


VIDEOS = Work("video", "LogisticModel", ("--feature_names=mean_rgb,mean_audio", "--feature_sizes=1024,128"))
FRAMES = Work(
    "frame",
    "FrameLevelLogisticModel",
    ("--feature_names=rgb,audio", "--feature_sizes=1024,128", "--frame_features"),
    ("--batch_size=128", "--log_every_n_steps=1"),  # so that there are enough lines to compare tenths of the run
)


class Process(NamedTuple):
    """What one process took: seconds by the clock, seconds of CPU time, peak memory in MB, MB written."""

    seconds: float
    cpu: float
    peak_mb: float
    written_mb: float


def main() -> int:
    """Runs both kinds and prints their rows."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.whole", description=__doc__)
    parser.add_argument("--videos", type=int, default=400_000, help="records at video level; 0: none")
    parser.add_argument("--frames", type=int, default=8_000, help="records of frames; 0: none")
    arguments = parser.parse_args()
    print(machine.describe(machine.load()), _heading(), sep="\n\n", flush=True)
    for work, count in ((VIDEOS, arguments.videos), (FRAMES, arguments.frames)):
        if count:
            _run(work, count)
    return 0


def _heading() -> str:
    return _FORMAT.format("run", "seconds", "videos/s", "a core-s", "peak MB", "MB out", "others", "")


def _run(work: Work, count: int) -> None:
    """Trains on `count` records, then evaluates and predicts as many; prints a line for each."""
    pattern = _records(work, count)
    with tempfile.TemporaryDirectory(dir=_FOLDER) as folder:
        training = (f"--model={work.model}", f"--train_data_pattern={pattern}", "--num_epochs=1")
        commands = {
            "train": (*training, *work.flags, *work.training),
            "eval": (f"--eval_data_pattern={pattern}", "--run_once"),
            "inference": (f"--input_data_pattern={pattern}", f"--output_file={folder}/predictions.csv"),
        }
        for program, flags in commands.items():
            others = Others()
            took = timed(["-m", f"yt8m.{program}", f"--train_dir={folder}/run", *flags])
            verdict = _flatness(pathlib.Path(folder, "run", "metrics.jsonl")) if program == "train" else ""
            print(_line(f"{program}/{work.model}, {count:,} videos", count, took, others.cores(), verdict), flush=True)


def _records(work: Work, count: int) -> str:
    folder = _FOLDER / f"{work.level}-{count}"
    os.makedirs(_FOLDER, exist_ok=True)
    with contextlib.redirect_stdout(sys.stderr):
        generate_once(SampleConfig(str(folder), work.level, train=count, validate=0, test=0))
    return str(folder / work.level / "train" / "*.tfrecord")


def timed(words: Sequence[str]) -> Process:
    """Runs a process of this Python to its end."""
    start = time.perf_counter()
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen([sys.executable, *words], stdout=log, stderr=log)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its counters can be read until it is reaped
        written = _bytes_written(process.pid)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            log.seek(0)
            raise SystemExit(f"{' '.join(words)} ended with {process.returncode}:\n{log.read()}")
    seconds = time.perf_counter() - start
    return Process(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, written / 1e6)


def _bytes_written(process: int) -> int:
    lines = pathlib.Path(f"/proc/{process}/io").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar:"))


def _line(name: str, count: int, took: Process, others: float, verdict: str) -> str:
    numbers = (took.seconds, count / took.seconds, count / took.cpu, took.peak_mb, took.written_mb)
    busy = f"{others:.1f}" + (" !" if others > machine.QUIET else "")
    whole = f"{_WHOLE_DATA_SET * took.seconds / count / 60:.0f} min for {_WHOLE_DATA_SET:,}"
    return _FORMAT.format(
        name, *(f"{number:,.0f}" for number in numbers), busy, "; ".join(filter(None, (whole, verdict)))
    )


def _flatness(path: pathlib.Path) -> str:
    """Whether the last tenth is as fast as the first; the first ten steps, which compile, do not count."""
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    rates = [row["examples_per_second"] for row in rows if "examples_per_second" in row and row["step"] > 10]
    if len(rates) < 20:
        return "too few lines to compare tenths"
    change = 0.9 * trend(rates)
    return f"{'yes' if abs(change) <= _FLAT else 'NO'}: last tenth {change:+.1%}, at most {_FLAT:.0%}"


def trend(rates: Sequence[float]) -> float:
    """Change along a line through all rates, as a share of their median.

    The line's slope is the median of the slopes of all pairs (Sen, 1968), since single rates differ by a tenth.
    """
    slopes = [(late - early) / (j - i) for (i, early), (j, late) in itertools.combinations(enumerate(rates), 2)]
    return statistics.median(slopes) * (len(rates) - 1) / statistics.median(rates)


if __name__ == "__main__":
    sys.exit(main())
