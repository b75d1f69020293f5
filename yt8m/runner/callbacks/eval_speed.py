"""Examples a second of an evaluation, in the line."""

from __future__ import annotations

from yt8m.runner.callbacks.train_speed import TrainSpeed


class EvalSpeed(TrainSpeed):
    """As in training: examples since the line before, by the time they took."""
