"""How CPU time and memory of `yt8m audit` grow with the number of videos: `python -m benchmarks.auditing`.

The videos are generated: 3,862 classes, 1,024 + 128 values, one copy with noise for each hundred videos. Each size is
audited by a process of its own. The growth between two sizes is the exponent of a power. That of the largest two gives
the time for 1.1 million videos, but growth below 1 counts as 1; memory is extrapolated by a line.
The time of training is given by its number of steps instead, which is known. With `--passes=1` the models are trained
for one pass, and the measured time is multiplied to that of the usual number of passes. If other programs use the
machine, half the CPU time stands for the time on two cores.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import functools
import json
import math
import pathlib
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.measure import Clock, OwnMemory, cpu_seconds
from yt8m.command_line import flags
from yt8m.config.data_config import DataConfig
from yt8m.config.train_config import TrainConfig
from yt8m.datasets.sample_data import synthetic_videos
from yt8m.labels import audit_summary, findings, folds, label_audit, video_copies
from yt8m.records import manifest, shards, vocabulary
from yt8m.records.data_format import DataFormat, FeatureFormat
from yt8m.training import training_run

SIZES, WHOLE = (11_000, 36_667, 110_000), 1_100_000
CLASSES, SEED = 3862, 0
_COPIED = 100  # of so many videos, one is a copy
_NOISE = 0.05, 0.2  # the least and the largest standard deviation of the noise on a copy
_SPLITS = {"train": 0.8, "validate": 0.2}
_TRAINED = 0.8  # the share of the videos that each model is trained on, in four of five folds and in `train`
_SHARDS = 8
_FEATURES = (FeatureFormat("mean_rgb", synthetic_videos.RGB), FeatureFormat("mean_audio", synthetic_videos.AUDIO))
# The function that does each part of an audit, by its module and name.
_PARTS = {
    "dividing": (folds.FoldSets, "write"),
    "copies": (video_copies, "find_copies"),
    "training": (training_run, "train"),
    "scoring": (folds, "score_videos"),
    "classes": (findings, "find_odd_classes"),
    "issues": (findings, "find_issues"),
}


def write(folder: pathlib.Path, count: int) -> str:
    """Writes so many videos as records, split by split; returns their pattern."""
    records, data = _records(count), DataFormat("video", _FEATURES, num_classes=CLASSES)
    for split, share in _SPLITS.items():
        paths = [str(folder / split / f"{split}{number}.tfrecord") for number in range(_SHARDS)]
        of_split = [next(records) for _ in range(round(count * share))]
        written = {path: manifest.write_shard(path, of_split[place::_SHARDS]) for place, path in enumerate(paths)}
        manifest.write(str(folder / split / manifest.NAME), written, data)
    vocabulary.write(str(folder / vocabulary.NAME), vocabulary.load())
    return str(folder / "*" / "*.tfrecord")


def _records(count: int) -> Iterator[bytes]:
    """The videos in random order; `c00012` is a copy of `v00012`."""
    rng, copies = np.random.default_rng(SEED), count // _COPIED
    videos = list(synthetic_videos.videos(SEED, 0, count - copies, CLASSES))
    for place in rng.permutation(count).tolist():
        number = place if place < len(videos) else place - len(videos)
        features = synthetic_videos.mean_features(videos[number])
        if place >= len(videos):
            features += np.float32(rng.uniform(*_NOISE)) * rng.standard_normal(len(features), np.float32)
        kind = "v" if place < len(videos) else "c"
        context = {
            "id": shards.bytes_feature(f"{kind}{number:07}".encode()),
            "labels": shards.int64_feature(videos[number].labels.tolist()),
        }
        parts = np.split(features, [synthetic_videos.RGB])
        values = {each.name: shards.float_feature(part) for each, part in zip(_FEATURES, parts, strict=True)}
        yield shards.example(context | values)


def measured(pattern: str, folder: pathlib.Path, count: int, passes: int) -> dict[str, float]:
    """Audits the videos; returns the CPU seconds of each part, MB of memory and what was found of the copies."""
    seconds: dict[str, float] = {}
    words = [f"--data={pattern}", f"--out={folder}", *[f"--num_epochs={passes}"] * bool(passes)]
    config, training, data = flags.audit_config(words)
    clock = Clock()
    with OwnMemory() as memory, contextlib.ExitStack() as stack:
        for part, (owner, name) in _PARTS.items():
            timed = functools.partialmethod if isinstance(owner, type) else functools.partial
            replacement = timed(_timed, getattr(owner, name), seconds, part)
            stack.enter_context(mock.patch.object(owner, name, replacement))
        label_audit.LabelAudit(config, training, data).run()
    seconds["rest"] = clock.sample().cpu - sum(seconds.values())
    seconds["training"] *= usual_passes(count) / (passes or usual_passes(count))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    planted = {frozenset((f"v{number:07}", f"c{number:07}")) for number in range(count // _COPIED)}
    found = found_copies(folder / audit_summary.COPIES, planted, count)
    return seconds | {"MB with pages of files": peak, "MB without": memory.peak_mb} | found


def _usual(count: int) -> DataConfig:
    """The usual batch size and number of passes for the models of an audit of so many videos."""
    return folds.with_usual_length(TrainConfig(""), round(count * _TRAINED), None, None).data


def usual_passes(count: int) -> int:
    """The number of passes over the videos."""
    return _usual(count).num_epochs or 0


def usual_steps(count: int) -> float:
    """The number of steps of each model."""
    return usual_passes(count) * count * _TRAINED / _usual(count).batch_size


def _timed(*arguments: Any, **named: Any) -> Any:
    """Calls a function and adds its CPU time to a part; a method gets its object first."""
    place = next(place for place, argument in enumerate(arguments) if callable(argument))
    function, seconds, part, *others = arguments[place:]
    before = cpu_seconds()
    try:
        return function(*arguments[:place], *others, **named)
    finally:
        seconds[part] = seconds.get(part, 0.0) + cpu_seconds() - before


def found_copies(path: pathlib.Path, planted: Set[frozenset[str]], count: int) -> dict[str, float]:
    """How many of the planted pairs of copies among `count` videos a file lists, and how many other pairs."""
    with path.open(newline="") as file:
        pairs = {frozenset((row["video"], row["other"])) for row in csv.DictReader(file)}
    return {
        "recall of copies": len(pairs & planted) / len(planted),
        "false pairs in a million": len(pairs - planted) / (count * (count - 1) / 2) * 1e6,
    }


def print_growth(table: Mapping[int, Mapping[str, float]]) -> None:
    """Prints the figures of each size, their growth, and what follows for the whole data set."""
    *_, before, last = sizes = sorted(table)
    print(f"{'':26s}" + "".join(f"{size:>12,}" for size in sizes) + f"{'growth':>10s}{WHOLE:>12,}")
    minutes = 0.0
    for name in table[last]:
        small, large = table[before].get(name, 0.0), table[last][name]
        power = math.log(large / small) / math.log(last / before) if small > 0 and large > 0 else 0.0
        by_steps = usual_steps(WHOLE) / usual_steps(last)
        whole = large * (by_steps if name == "training" else (WHOLE / last) ** max(power, 1))
        if "MB" in name:
            whole = large + (large - small) / (last - before) * (WHOLE - last)
        is_time = "MB" not in name and " of " not in name and " in " not in name
        minutes += whole / 60 if is_time else 0
        columns = "".join(f"{table[size].get(name, 0.0):12,.3f}" for size in sizes)
        print(f"{name:26s}{columns}" + (f"{power:10.2f}{whole:12,.0f}" if is_time or "MB" in name else ""))
    print(f"{WHOLE:,} videos: {minutes:.0f} minutes of CPU time, {minutes / 2:.0f} minutes on two cores")


def _run(count: int, passes: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        pattern = write(pathlib.Path(name) / "data", count)
        command = [
            sys.executable,
            "-m",
            "benchmarks.auditing",
            f"--pattern={pattern}",
            f"--out={name}/audit",
            f"--passes={passes}",
        ]
        done = subprocess.run([*command, str(count)], stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main(argv: Sequence[str]) -> None:
    """Audits each size in a process of its own, and prints the growth; with --pattern, audits and prints JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.auditing", description=__doc__)
    parser.add_argument("sizes", type=int, nargs="*", default=SIZES, help="numbers of videos, at least two")
    parser.add_argument("--passes", type=int, default=0, help="passes of each training [the usual ones]")
    parser.add_argument("--pattern", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=pathlib.Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.pattern:
        print(json.dumps(measured(arguments.pattern, arguments.out, arguments.sizes[0], arguments.passes)))
        return
    table = {}
    for size in arguments.sizes:
        table[size] = _run(size, arguments.passes)
        print(size, json.dumps({name: round(value, 3) for name, value in table[size].items()}), flush=True)
    print_growth(table)


if __name__ == "__main__":
    main(sys.argv[1:])
