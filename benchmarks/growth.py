"""How cost grows with size: CPU time an example and peak memory for 1, 2, 4 and 8 times the data, classes, ...

`python -m benchmarks.growth bench.json growth.png` draws the rows `growth/...` of a result.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys
import tempfile
from typing import Any

from benchmarks import metrics, runs
from benchmarks.measure import Measured, repeat
from yt8m import runner

SIZES = (1, 2, 4, 8)
VIDEOS, CLASSES, FRAMES, BATCH = 125_000, 3862, 37, 1024
_STEPS = 10


def validation(times: int, repeats: int) -> Measured:
    """The figures of so many times 125,000 validated videos."""
    return repeat(lambda: metrics.figures(VIDEOS * times), VIDEOS * times, repeats)


def classes(times: int, repeats: int) -> Measured:
    """LogisticModel with so many times 3862 classes."""
    return _train(runs.video_data(BATCH), "LogisticModel", repeats, num_classes=CLASSES * times)


def frames(times: int, repeats: int) -> Measured:
    """FrameLevelLogisticModel on so many times 37 frames."""
    return _train(runs.frame_data(32), "FrameLevelLogisticModel", repeats, max_frames=FRAMES * times)


def towers(times: int, repeats: int) -> Measured:
    """LogisticModel on so many towers, which share a batch of 1024."""
    measured = _train(runs.video_data(BATCH // times), "LogisticModel", repeats, times)
    return dataclasses.replace(measured, count=BATCH)


def _train(config: Any, model: str, repeats: int, num_towers: int = 1, **changes: int) -> Measured:
    videos = runs.create_workload("train", dataclasses.replace(config, **changes), model)
    with tempfile.TemporaryDirectory() as folder:
        return runs.run(runner.RunnerConfig("train", folder, gpu_count=num_towers), videos, repeats, {}, _STEPS)


def draw(result: str, picture: str) -> None:
    """Draws two panels against the size: CPU time an example relative to the smallest size, and peak memory in MB."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = json.loads(pathlib.Path(result).read_text())["rows"]
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for axis in dict.fromkeys(name.rpartition(" x ")[0] for name in rows if name.startswith("growth/")):
        results = [rows[f"{axis} x {size}"] for size in SIZES]
        rates = [result["cpu_rate"]["median"] for result in results]
        left.plot(SIZES, [rates[0] / rate for rate in rates], marker="o", label=axis.removeprefix("growth/"))
        right.plot(SIZES, [result["peak_mb"] for result in results], marker="o")
    left.set(xscale="log", yscale="log", xlabel="size", title="CPU time an example, x 1 = 1")
    left.set_yticks(SIZES, [f"x {size}" for size in SIZES], minor=False)
    right.set(xscale="log", xlabel="size", title="peak memory, MB", ylim=(0, None))
    for panel in (left, right):
        panel.set_xticks(SIZES, [f"x {size}" for size in SIZES], minor=False)
        panel.minorticks_off()
        panel.grid(alpha=0.3)
    left.legend(fontsize="small")
    figure.savefig(picture, dpi=90)


if __name__ == "__main__":
    draw(*sys.argv[1:])
