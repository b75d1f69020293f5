"""How cost grows with size: CPU time an example and peak memory for 1, 2, 4 and 8 times the data, classes, ..."""

from __future__ import annotations

import dataclasses
import tempfile
from typing import Any

from benchmarks import many, runs
from benchmarks.measure import Measured, repeat
from benchmarks.rows import Measure
from yt8m import runner

SIZES = (1, 2, 4, 8)
VIDEOS, CLASSES, FRAMES, BATCH = 125_000, 3862, 37, 1024
_STEPS = 10


def validation(times: int) -> Measure:
    """The `measure` of a row: the figures of so many times 125,000 validated videos."""
    return lambda repeats: repeat(lambda: many.figures(VIDEOS * times), VIDEOS * times, repeats)


def classes(times: int) -> Measure:
    """The `measure` of a row: LogisticModel with so many times 3862 classes."""
    return lambda repeats: _train(runs.video_data(BATCH), "LogisticModel", repeats, num_classes=CLASSES * times)


def frames(times: int) -> Measure:
    """The `measure` of a row: FrameLevelLogisticModel on so many times 37 frames."""
    return lambda repeats: _train(runs.frame_data(32), "FrameLevelLogisticModel", repeats, max_frames=FRAMES * times)


def towers(times: int) -> Measure:
    """The `measure` of a row: LogisticModel on so many towers, which share a batch of 1024."""

    def measure(repeats: int) -> Measured:
        measured = _train(runs.video_data(BATCH // times), "LogisticModel", repeats, times)
        return dataclasses.replace(measured, count=BATCH)

    return measure


def _train(config: Any, model: str, repeats: int, num_towers: int = 1, **changes: int) -> Measured:
    videos = runs.create_workload("train", dataclasses.replace(config, **changes), model)
    with tempfile.TemporaryDirectory() as folder:
        return runs.run(runner.RunnerConfig("train", folder, gpu_count=num_towers), videos, repeats, {}, _STEPS)
