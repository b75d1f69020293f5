"""Films with planted spans of three classes, of which a model learns the labels alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

NAMES = ("cut", "drill", "weld")
Span = tuple[float, float, str]
# A short training that learns these classes.
OPTIONS = {
    "max_steps": 400,
    "base_learning_rate": 0.1,
    "input_transform": "standardize",
    "batch_size": 32,
    "l2_penalty": 1e-3,
    "export_model_steps": 0,
}


def films(count: int, seed: int) -> tuple[list[np.ndarray], list[list[Span]]]:
    """The frames of films, float32 [T, 12], and the spans that are planted in them."""
    draw, frames, spans = np.random.default_rng(seed), [], []
    for _ in range(count):
        values, planted = draw.normal(size=(int(draw.integers(60, 90)), 12)), list[Span]()
        for name in [name for name in NAMES if draw.random() < 0.4]:
            start = int(draw.integers(0, len(values) - 20))
            end = start + int(draw.integers(12, 20))
            values[start:end, NAMES.index(name)] += 4
            planted.append((start, end, name))
        frames.append(values.astype(np.float32))
        spans.append(planted)
    return frames, spans


def share_found(
    found: Sequence[Sequence[tuple[float, float, str, float]]], planted: Sequence[Sequence[Span]]
) -> tuple[float, float]:
    """(share of the planted spans that were found, share of the found ones that are right), at tIoU 0.4."""
    pairs = [
        [_overlap(one, other) >= 0.4 and one[2] == other[2] for one in those for other in these]
        for those, these in zip(planted, found, strict=True)
    ]
    hits = sum(map(sum, pairs))
    return hits / sum(map(len, planted)), hits / sum(map(len, found))


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    shared = max(0.0, min(one[1], other[1]) - max(one[0], other[0]))
    return shared / (one[1] - one[0] + other[1] - other[0] - shared)
