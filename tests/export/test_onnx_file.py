"""What an ONNX file does with values that it cannot hold, and with scores that are no probabilities."""

from __future__ import annotations

import dataclasses
import json
import pathlib

import numpy as np
import pytest
import small_exports

from yt8m.export import onnx_export
from yt8m.export.onnx_file import OnnxFile
from yt8m.lazy import tf
from yt8m.records.record_parser import NumpyBatch


def test_values_that_bytes_cannot_hold_are_said_once(tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture) -> None:
    data, parts, checkpoint = small_exports.checkpoint(tmp_path, "FrameLevelLogisticModel")
    path = str(tmp_path / "m.onnx")
    onnx_export.export_onnx(path, checkpoint, data, parts.modeler, input_type="uint8")
    file = OnnxFile(path)

    def score(largest: float) -> list[str]:
        caplog.clear()
        features = {"rgb": np.full((2, 3, 6), 1.5, np.float32), "audio": np.zeros((2, 3, 2), np.float32)}
        features["rgb"][0, 1, 2] = largest
        file.scores(NumpyBatch(["a", "b"], features, np.full(2, 3, np.int32), np.zeros((2, 0), np.bool_)))
        return [record.getMessage() for record in caplog.records if "clipped" in record.getMessage()]

    assert score(2.003) == []  # the byte 255 stands for 2.0078
    (message,) = score(5.25)
    assert "1 of 36 values" in message
    assert "rgb stand for -2 to 2" in message
    assert "up to 5.25" in message
    assert "--input_type=float32" in message
    assert score(7.0) == []


def test_a_model_whose_scores_are_no_probabilities_is_exported_with_a_warning(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, parts, checkpoint = small_exports.checkpoint(tmp_path, "LogisticModel")
    predict = parts.modeler.predict_raw

    def predict_logits(*inputs: tf.Tensor) -> tf.Tensor:
        output = predict(*inputs)
        return dataclasses.replace(output, predictions=40 * output.predictions - 20)

    monkeypatch.setattr(parts.modeler, "predict_raw", predict_logits)
    path = str(tmp_path / "m.onnx")
    onnx_export.export_onnx(path, checkpoint, data, parts.modeler)
    assert "no probabilities" in caplog.text
    file = OnnxFile(path)
    assert json.loads(file.texts["yt8m"])["has_probabilities"] is False
    frames = np.random.default_rng(0).normal(size=(2, 1, 8)).astype(np.float32)
    scores = file.scores_of_frames(frames, np.ones(2, np.int32))
    assert scores.min() < 0
    assert scores.max() > 1
