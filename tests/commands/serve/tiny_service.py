"""`yt8m serve` with a model that needs no TensorFlow, in a process that starts at once, and bodies to attack it with.

`python tests/commands/serve/tiny_service.py FLAGS` serves a model whose score of class c is (sum of the
features + c / 5) modulo 1. A feature of 99 makes its step last for ever, one of 98 makes it fail.
"""

from __future__ import annotations

import contextlib
import sys
import time

import numpy as np

from yt8m.command_line import cli
from yt8m.export import saved_model
from yt8m.export.saved_model import Predictions
from yt8m.records import shards, vocabulary

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


class TinyModel:
    """Stands for `SavedModel`."""

    folder, feature_size, num_classes, names = "tiny", SIZE, CLASSES, vocabulary.of(CLASSES)

    def predict(self, records: list[bytes]) -> Predictions:
        parsed = [shards.parse(record) for record in records]
        scores = self.score(np.array([[record.values("mean_rgb")] for record in parsed]), np.ones(len(parsed)))
        order = np.argsort(-scores, axis=1, kind="stable").astype(np.int32)
        return Predictions(np.array([record.id() for record in parsed]), order, -np.sort(-scores, axis=1))

    def score(self, frames: np.ndarray, num_frames: np.ndarray) -> np.ndarray:
        while (frames == STUCK).any():
            time.sleep(1)
        if (frames == BROKEN).any():
            raise ValueError("a model that fails")
        return scores_of(frames.sum(axis=1))


if __name__ == "__main__":
    saved_model.find = lambda folder: folder
    saved_model.opened = lambda _: contextlib.nullcontext(TinyModel())
    sys.exit(cli.main(["serve", "--model=tiny", "--port=0", *sys.argv[1:]]))
