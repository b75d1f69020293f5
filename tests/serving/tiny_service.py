"""`yt8m serve` with a model that needs no TensorFlow, in a process that starts at once, and bodies to attack it with.

`python tests/serving/tiny_service.py FLAGS` serves a model whose score of class c is (sum of the
features + c / 5) modulo 1. A feature of 99 makes its step last for ever, one of 98 makes it fail.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from yt8m import scoring
from yt8m.command_line import cli
from yt8m.records import shards, vocabulary
from yt8m.records.data_format import DataFormat, FeatureFormat
from yt8m.records.record_parser import NumpyBatch
from yt8m.scoring.model_input import ModelInput, Videos

CLASSES, SIZE, STUCK, BROKEN = 5, 3, 99.0, 98.0


def scores_of(features: np.ndarray) -> np.ndarray:
    """float32 [B, CLASSES] of features [B, SIZE]."""
    return ((features.sum(axis=1, keepdims=True) + np.arange(CLASSES) / CLASSES) % 1).astype(np.float32)


# The fields of a record from the outside to a value of a frame: lists, entry, list, frame, kind.
_PATH = (2, 1, 2, 1, 1)


def empty_fields(size: int, depth: int = 0) -> bytes:
    """A record of about `size` bytes that is all empty fields, inside `depth` messages; two bytes are a field."""
    body = b"\x0a\x00" * (size // 2)
    for number in reversed(_PATH[:depth]):
        body = shards.field(number, body)
    return body


class TinyModel(scoring.Scorer):
    """A scorer of videos with one feature, mean_rgb."""

    def __init__(self, size: int = SIZE, classes: int = CLASSES) -> None:
        described = DataFormat("video", (FeatureFormat("mean_rgb", size),), num_classes=classes)
        super().__init__("tiny", ModelInput("tiny", described, (), True, False), vocabulary.of_names(()).shown(classes))
        self.weights = "tiny"

    def compute(self, videos: Videos, rows: int) -> tuple[list[str], np.ndarray]:
        if isinstance(videos, NumpyBatch):
            return list(videos.ids), self.score(videos.features["mean_rgb"])
        records = [shards.parse(payload) for payload, _, _ in videos]
        features = np.array([record.values("mean_rgb") for record in records])
        return [shards.id_text(record.id()) for record in records], self.score(features)

    def score(self, features: np.ndarray) -> np.ndarray:
        while (features == STUCK).any():
            time.sleep(1)
        if (features == BROKEN).any():
            raise ValueError("a model that fails")
        return scores_of(features)

    def evaluated(self, videos: Videos, rows: int = 0, settings: object = None) -> scoring.EvaluatedStep:
        raise NotImplementedError


if __name__ == "__main__":
    scoring.open = lambda *_, **__: TinyModel()
    sys.exit(cli.main(["serve", "--model=tiny", "--port=0", *sys.argv[1:]]))
