"""Whole videos by a model that sees the neighbours of a cell: none is taken for a cell, whatever form it comes in."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest
import span_runs

import yt8m
from yt8m.command_line import cli

pytestmark = pytest.mark.long
CONTEXT = 2
LENGTH = span_runs.CELL + 2 * CONTEXT


def scores_of(model: yt8m.Model, data: Any, video: str) -> list[float]:
    """The scores of the classes of a video."""
    (found,) = (prediction for prediction in model.predict(data, top_k=3) if prediction.id == video)
    return [score for _, score in sorted((one.index, one.score) for one in found.classes)]


@pytest.mark.heavy
def test_a_video_as_long_as_a_cell_is_scored_whole(tmp_path: pathlib.Path) -> None:
    span_runs.make_films(tmp_path)
    np.save(tmp_path / "short.npy", np.random.default_rng(1).normal(size=(LENGTH, 6)).astype(np.float32))
    with (tmp_path / "spans.csv").open("a") as file:
        file.write("short,short.npy,weld,0,2,validate\n")
    span_runs.make_records(tmp_path, "data")
    words = [f"--data={tmp_path}/data/frame/train/*.tfrecord", f"--train_dir={tmp_path}/run", "--max_steps=20"]
    words += ["--model=FrameLevelLogisticModel", f"--segment_context={CONTEXT}", "--base_learning_rate=0.1"]
    assert cli.call("train", words) == 0
    (export,) = (tmp_path / "run" / "export").iterdir()
    records = f"{tmp_path}/data/frame/validate/*.tfrecord"
    (batch,) = yt8m.read_records(records)
    for path in (tmp_path / "run", export):
        with yt8m.load(path) as model:
            (feature,) = model._scorer.takes.format.sizes()
            frames = batch.dequantize().features[feature][list(batch.ids).index("short"), :LENGTH]
            twice = scores_of(model, {feature: [np.repeat(frames, 2, axis=0)]}, "0")
            np.testing.assert_allclose(scores_of(model, {feature: [frames]}, "0"), twice, rtol=1e-4)
            np.testing.assert_allclose(scores_of(model, records, "short"), twice, rtol=1e-4)
