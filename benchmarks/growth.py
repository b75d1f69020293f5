"""`python -m benchmarks.growth [--most 8] [--picture docs/pictures/growth.png]`: how cost grows with size.

For 1, 2, 4, ... times the data, classes, frames and towers: CPU time an example and peak memory, each size
in a process of its own. CPU time, since other programs disturb it less than the clock does.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks import many, runs
from benchmarks.measure import Clock, Measured
from yt8m import runner
from yt8m.config.train_config import ModelConfig
from yt8m.video import workload

_WATCH = "benchmarks.stopwatch:Stopwatch"
_STEPS, _BLOCKS = 10, 2


class Axis(NamedTuple):
    """One size that grows; `measure` takes a multiple of the smallest size, gives seconds of CPU time an example."""

    what: str
    smallest: str
    measure: Callable[[int], float]


def _validation(times: int) -> float:
    clock = Clock()
    many.figures(125_000 * times)
    return clock.sample(125_000 * times).cpu


def _classes(times: int) -> float:
    config = dataclasses.replace(runs.video_data(), num_classes=3862 * times)
    return _training(config, "LogisticModel")


def _frames(times: int) -> float:
    config = dataclasses.replace(runs.frame_data(32), max_frames=37 * times)
    return _training(config, "FrameLevelLogisticModel")


def _towers(times: int) -> float:
    config = dataclasses.replace(runs.video_data(), batch_size=1024 // times)
    return _training(config, "LogisticModel", times)


AXES = {
    "validation": Axis("validated videos, figures alone", "125,000", _validation),
    "classes": Axis("classes, LogisticModel", "3862", _classes),
    "frames": Axis("frames, FrameLevelLogisticModel", "37", _frames),
    "towers": Axis("towers of one batch of 1024, LogisticModel", "1", _towers),
}


def _training(config: Any, model: str, towers: int = 1) -> float:
    measured = Measured(config.batch_size * towers, [], [])
    watch = {"into": measured, "steps": _STEPS, "repeats": _BLOCKS, "floor": None}
    parts = workload.create(config, ModelConfig(model), "train")
    with tempfile.TemporaryDirectory() as folder:
        settings = runner.RunnerConfig("train", folder, gpu_count=towers, batch_size_per_gpu=config.batch_size)
        callbacks = runner.CallbackConfig((_WATCH,), {_WATCH: watch})
        runs.finish(runner.build(settings, parts.inputter, parts.modeler, callbacks))
    return min(sample.cpu for sample in measured.samples) / measured.count


def main() -> None:
    """Measures all axes, prints the table, draws the picture."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--most", type=int, default=8, help="the largest size, in times the smallest")
    parser.add_argument("--picture", help="PNG file to draw")
    parser.add_argument("--one", nargs=2, help="(used within: measures one axis at one size)")
    arguments = parser.parse_args()
    if arguments.one:
        seconds = AXES[arguments.one[0]].measure(int(arguments.one[1]))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps([seconds * 1e6, peak]))
        return
    sizes = [2**power for power in range(arguments.most.bit_length())]
    found = {axis: [_apart(axis, size) for size in sizes] for axis in AXES}
    print(table(sizes, found))
    if arguments.picture:
        draw(arguments.picture, sizes, found)


def _apart(axis: str, size: int) -> tuple[float, float]:
    """(microseconds of CPU time an example, peak MB), measured in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.growth", "--one", axis, str(size)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    microseconds, peak = json.loads(done.stdout.splitlines()[-1])
    return microseconds, peak


def table(sizes: list[int], found: dict[str, list[tuple[float, float]]]) -> str:
    """A Markdown table; each cell is `microseconds of CPU time an example / peak MB`."""
    heads = [f"x {size}" for size in sizes]
    lines = [f"| what grows | x 1 is | {' | '.join(heads)} |", "|" + "---|" * (2 + len(sizes))]
    for axis, cells in found.items():
        shown = [f"{microseconds:,.1f} / {peak:,.0f}" for microseconds, peak in cells]
        lines.append(f"| {AXES[axis].what} | {AXES[axis].smallest} | {' | '.join(shown)} |")
    return "\n".join(lines)


def draw(path: str, sizes: list[int], found: dict[str, list[tuple[float, float]]]) -> None:
    """Draws two panels against the size: CPU time relative to the smallest size, and peak memory in MB."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for axis, cells in found.items():
        times, peaks = np.array(cells).T
        left.plot(sizes, times / times[0], marker="o", label=AXES[axis].what)
        right.plot(sizes, peaks, marker="o")
    left.set(xscale="log", yscale="log", xlabel="size", title="CPU time an example, x 1 = 1")
    left.set_yticks(sizes, [f"x {size}" for size in sizes], minor=False)
    right.set(xscale="log", xlabel="size", title="peak memory, MB", ylim=(0, None))
    for panel in (left, right):
        panel.set_xticks(sizes, [f"x {size}" for size in sizes], minor=False)
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    left.legend(fontsize="small")
    figure.savefig(path, dpi=90)


if __name__ == "__main__":
    main()
