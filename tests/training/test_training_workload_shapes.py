"""Shapes of variables, for which a model is built without a run."""

from __future__ import annotations

import subprocess
import sys

import pytest

_SHAPES = """
from yt8m import models
from yt8m.config.data_config import DataConfig
from yt8m.training import training_workload
model = models.create("LstmModel", {"lstm_cells": 4, "lstm_layers": 1})
data = DataConfig(feature_names=("clip",), feature_sizes=(3,), frame_features=True)
print(training_workload.shapes_of(model, data, 2)["tower/rnn/multi_rnn_cell/cell_0/basic_lstm_cell/kernel"])
"""


@pytest.mark.heavy
def test_a_search_for_gpus_that_are_not_there_is_not_reported() -> None:
    """In a process of its own, because TensorFlow says it once, at its first search for devices."""
    done = subprocess.run([sys.executable, "-c", _SHAPES], check=True, capture_output=True, text=True)
    assert done.stdout == "(7, 16)\n"
    assert "cuda" not in done.stderr.lower()
