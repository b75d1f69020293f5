"""Calls of the Python interface that write, to be killed as commands are: `python killed_python:FUNCTION WORD ...`."""

from __future__ import annotations

import numpy as np

import yt8m


def save_classifier(folder: str) -> None:
    """Trains a classifier, in a folder whose calls are not counted, and saves it."""
    labels = ["red", "blue"] * 12
    features = np.random.default_rng(0).normal(size=(24, 4)).astype(np.float32)
    yt8m.Classifier("LogisticModel", options={"max_steps": 2, "batch_size": 8}).fit(features, labels).save(folder)
