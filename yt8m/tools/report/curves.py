"""The curves of a training, from metrics.jsonl."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from yt8m import json_text, storage
from yt8m.eval_util.arrays import Floats64

FILE = "metrics.jsonl"
_NO_CURVE = ("step", "examples")
# The first in this order, what else there is behind them.
_ORDER = ("loss", "GAP", "Hit@1", "PERR", "examples_per_second")


class Curve:
    """One figure over the steps.

    Attributes:
      steps: [P], ascending.
      values: [P], finite.
    """

    def __init__(self, points: Mapping[int, float]) -> None:
        self.steps: Floats64 = np.array(sorted(points), np.float64)
        self.values: Floats64 = np.array([points[step] for step in sorted(points)], np.float64)

    def smoothed(self) -> Floats64:
        """[P], a mean over a twentieth of the points around each; at the ends over those that are there."""
        width = max(1, len(self.values) // 20)
        kernel = np.ones(2 * (width // 2) + 1)
        sums = np.convolve(self.values, kernel)[len(kernel) // 2 :][: len(self.values)]
        sizes = np.convolve(np.ones(len(self.values)), kernel)[len(kernel) // 2 :][: len(self.values)]
        return np.asarray(sums / sizes)


def read(train_dir: str) -> dict[str, Curve]:
    """The curves by name; none where the file is missing.

    Where a resumed run has a step again, the later line counts; a line cut short by a kill does not.
    """
    path = storage.join(train_dir, FILE)
    if not storage.exists(path):
        return {}
    points: dict[str, dict[int, float]] = {}
    for line in _lines(storage.read_bytes(path)):
        for name, value in line.items():
            if name not in _NO_CURVE and isinstance(value, int | float):
                points.setdefault(name, {})[int(line["step"])] = float(value)
    names = sorted(points, key=lambda name: (_ORDER.index(name) if name in _ORDER else len(_ORDER), name))
    return {name: Curve(points[name]) for name in names}


def _lines(text: bytes) -> Iterator[dict[str, Any]]:
    for line in text.splitlines():
        try:
            values = json_text.parse(line)
        except ValueError:
            continue
        if isinstance(values, dict) and isinstance(values.get("step"), int):
            yield values
