"""A set in the format of CIFAR-10 that needs no network: ten classes of textures that can be learned.

A class is one of five patterns in one of two pairs of colours. Scale, place, turn, contrast, tint and noise
differ from picture to picture, and no class is the mirror image of another, so that no single pixel tells
the class and the usual distortions leave it recognisable.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from examples.cifar10.records import NUM_CLASSES, SIDE, encode
from yt8m import storage

RECORDS = 2000  # records in a file

_PATTERNS = 5
# Red against cyan, and blue against yellow.
_COLOURS = np.array([[1.0, -0.7, -0.5], [-0.5, -0.5, 1.0]])
_NOISE = 18.0


def make(path: str, seed: int, records: int = RECORDS) -> None:
    """Writes one file of the set, whole or not at all, unless it exists; each seed gives other pictures."""
    if storage.exists(path):
        return
    images, labels = pictures(records, np.random.default_rng(seed))
    with storage.write_atomic(path) as file:
        file.write(encode(images, labels))


def pictures(count: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """uint8 [count, 32, 32, 3] and their labels uint8 [count], the classes evenly in random order."""
    labels = generator.permutation(np.arange(count) % NUM_CLASSES).astype(np.uint8)
    patterns = _patterns(labels % _PATTERNS, generator)
    colours = _COLOURS[labels // _PATTERNS] + generator.normal(0, 0.15, (count, 3))
    contrast = generator.uniform(30, 70, (count, 1, 1, 1))
    tint = generator.uniform(90, 165, (count, 1, 1, 3))
    noise = generator.normal(0, _NOISE, (count, SIDE, SIDE, 3))
    values = tint + contrast * patterns[..., np.newaxis] * colours[:, np.newaxis, np.newaxis] + noise
    return np.clip(values, 0, 255).astype(np.uint8), labels


def _patterns(kinds: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """float [N, 32, 32], -1 to 1: stripes lying, standing or aslant; a chequerboard; rings."""
    count = len(kinds)
    x, y = _turned(count, generator)
    wave = 2 * np.pi / generator.uniform(6, 9, (count, 1, 1))
    start, across = generator.uniform(0, 2 * np.pi, (2, count, 1, 1))
    slope = generator.choice([-1.0, 1.0], (count, 1, 1))
    values = np.empty(x.shape)
    for kind in range(_PATTERNS):
        own = kinds == kind
        values[own] = _pattern(kind, *(part[own] for part in (x, y, wave, start, across, slope)))
    return values


def _pattern(kind: int, x: Any, y: Any, wave: Any, start: Any, across: Any, slope: Any) -> Any:
    """One kind of pattern at x, y, by its wave number, two phases and a direction of 1 or -1."""
    if kind == 0:
        return np.sin(wave * y + start)
    if kind == 1:
        return np.sin(wave * x + start)
    if kind == 2:
        return np.sin(wave * (x + slope * y) * np.sqrt(0.5) + start)
    if kind == 3:
        return np.sign(np.sin(wave * x + start) * np.sin(wave * y + across))
    return np.sin(wave * np.hypot(x, y) + start)


def _turned(count: int, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates [N, 32, 32] around a point near the middle, turned by up to 10 degrees."""
    rows, columns = np.mgrid[:SIDE, :SIDE] - (SIDE - 1) / 2
    angle = np.deg2rad(generator.uniform(-10, 10, (count, 1, 1)))
    shift = generator.uniform(-4, 4, (2, count, 1, 1))
    x, y = columns + shift[0], rows + shift[1]
    return x * np.cos(angle) - y * np.sin(angle), x * np.sin(angle) + y * np.cos(angle)
