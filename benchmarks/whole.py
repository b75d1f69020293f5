"""Whole runs as people start them.

One pass over generated records: trained, evaluated and predicted by the commands, with the checkpoints, summaries and
figures that they write by default. Everything counts: the start of the processes, the last checkpoint, the export.
"""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks import data
from benchmarks.measure import Clock, Measured
from benchmarks.rows import verdict

_WHOLE_DATA_SET = 3_900_000  # videos of YouTube-8M's training set
_DISKS = {"500 MB/s": 500e6, "3 GB/s": 3e9}
_FLAT = 0.05  # allowed difference between the rates of the first and the last tenth


class Work(NamedTuple):
    """One kind of records, the number of videos, the model that is trained on them, and its flags."""

    level: str
    number: int
    model: str
    flags: Sequence[str]
    training: Sequence[str] = ()

    @property
    def cache(self) -> pathlib.Path:
        """The folder of the cache of these records."""
        return data.FOLDER / f"whole-cache-{self.model}"


VIDEOS = Work("video", 400_000, "LogisticModel", ("--feature_names=mean_rgb,mean_audio", "--feature_sizes=1024,128"))
FRAMES = Work(
    "frame",
    8_000,
    "FrameLevelLogisticModel",
    ("--feature_names=rgb,audio", "--feature_sizes=1024,128", "--frame_features"),
    ("--batch_size=128", "--log_every_n_steps=1"),  # so that there are enough lines to compare tenths of the run
)


PROGRAMS = ("train", "eval", "inference")


def run(program: str, work: Work, _repeats: int, *, is_cached: bool = False) -> Measured:
    """Runs a command once. The run that was trained last is evaluated and predicts.

    Args:
      program: one of `PROGRAMS`.
      work: the data and the model.
      is_cached: whether the cache is read that the row of `make_cache` has filled.
    """
    pattern, run_dir, cache = data.shards(work.level, work.number), data.FOLDER / f"whole-{work.model}", work.cache
    if program == "train":
        shutil.rmtree(run_dir, ignore_errors=True)
    elif not run_dir.exists():
        raise SystemExit(f"nothing was trained yet; run the row that trains {work.model} first")
    if is_cached and not cache.exists():
        raise SystemExit("there is no cache yet; run the row that makes it first")
    training = (f"--model={work.model}", f"--train_data_pattern={pattern}", "--num_epochs=1")
    flags = {
        "train": (*training, *work.flags, *work.training),
        "eval": (f"--eval_data_pattern={pattern}", "--run_once"),
        "inference": (f"--input_data_pattern={pattern}", f"--output_file={run_dir}/predictions.csv"),
    }
    words = [f"yt8m.{program}", f"--train_dir={run_dir}", *flags[program], *[f"--cache={cache}"] * is_cached]
    measured = _measured(work, words)
    folder = cache if is_cached else pathlib.Path(pattern).parent
    measured.notes.append(on_paper(sum(path.stat().st_size for path in folder.iterdir()) / work.number))
    if program == "train":
        measured.notes.append(_flatness(run_dir / "metrics.jsonl"))
    return measured


def make_cache(work: Work, _repeats: int) -> Measured:
    """Fills a new cache, in as many processes as there are cores."""
    pattern = data.shards(work.level, work.number)
    shutil.rmtree(work.cache, ignore_errors=True)
    return _measured(work, ["yt8m", "cache", f"--data={pattern}", f"--out={work.cache}", *work.flags])


def _measured(work: Work, words: Sequence[str]) -> Measured:
    """The time of a process of this Python, `-m` and these words."""
    clock = Clock()
    written = _run_process(["-m", *words])
    sample = clock.sample()
    minutes = _WHOLE_DATA_SET * sample.seconds / work.number / 60
    notes = [f"{written / 1e6:,.0f} MB written", f"{minutes:.0f} min for {_WHOLE_DATA_SET:,}"]
    return Measured(work.number, [sample], notes=notes)


def on_paper(video_bytes: float) -> str:
    """What the whole data set takes on disks, and how long these need at least for a pass over it."""
    total = _WHOLE_DATA_SET * video_bytes
    minutes = [f"{total / speed / 60:.0f} min at {name}" for name, speed in _DISKS.items()]
    return f"{total / 1e12:.2f} TB: at least {', '.join(minutes)}"


def _run_process(words: Sequence[str]) -> int:
    """Runs a process of this Python to its end; returns the number of bytes that it wrote."""
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen([sys.executable, *words], stdout=log, stderr=log) as process,
    ):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # its counters can be read until it is reaped
        lines = pathlib.Path(f"/proc/{process.pid}/io").read_text().splitlines()
        if process.wait():
            log.seek(0)
            raise SystemExit(f"{' '.join(words)} ended with {process.returncode}:\n{log.read()}")
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar:"))


def _flatness(path: pathlib.Path) -> str:
    """Whether the last tenth is as fast as the first; the first ten steps, which compile, do not count."""
    rows = map(json.loads, path.read_text().splitlines())
    rates = [row["examples_per_second"] for row in rows if "examples_per_second" in row and row["step"] > 10]
    if len(rates) < 20:
        return "too few lines to compare tenths"
    change = 0.9 * trend(rates)
    return verdict(abs(change) <= _FLAT, f"last tenth {change:+.1%}, at most {_FLAT:.0%}")


def trend(rates: Sequence[float]) -> float:
    """Change along a line through all rates, as a share of their median.

    The line's slope is the median of the slopes of all pairs (Sen, 1968), since single rates differ by a tenth.
    """
    slopes = [(late - early) / (j - i) for (i, early), (j, late) in itertools.combinations(enumerate(rates), 2)]
    return statistics.median(slopes) * (len(rates) - 1) / statistics.median(rates)
