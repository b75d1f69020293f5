"""Graphs of models on a machine without a GPU."""

from __future__ import annotations

import subprocess
import sys

import pytest

_LOOP = """
from yt8m import models
from yt8m.lazy import tf
from yt8m.video.modeler import VideoModeler
model = models.create("LstmModel", {"lstm_cells": 4, "lstm_layers": 1})
with tf.Graph().as_default():
    print(VideoModeler(model, None, 2, feature_sizes=(3,)).predict_placeholders(True).predictions.shape)
"""


@pytest.mark.heavy
def test_a_look_for_gpus_that_are_not_there_is_not_reported() -> None:
    """In a process of its own, because TensorFlow says it once, when the first loop is built."""
    done = subprocess.run([sys.executable, "-c", _LOOP], check=True, capture_output=True, text=True)
    assert done.stdout == "(None, 2)\n"
    assert "cuda" not in done.stderr.lower()
