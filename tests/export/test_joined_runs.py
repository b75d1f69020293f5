"""Several runs as one exported model: its predictions are the mean of theirs."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from golden_data import golden

from yt8m import inference, train
from yt8m.command_line import cli

pytestmark = [pytest.mark.long, pytest.mark.heavy]

SIZES = ["--feature_names=mean_rgb,mean_audio", "--feature_sizes=16,8", "--num_classes=10"]


def trained(folder: pathlib.Path, *more: str) -> pathlib.Path:
    pattern = f"--train_data_pattern={golden('checkpoint_logistic/train.tfrecord')}"
    given = {word.partition("=")[0] for word in more}
    sizes = [flag for flag in SIZES if flag.partition("=")[0] not in given]
    usual = ["--batch_size=16", "--max_steps=12", "--num_epochs=9"]
    assert train.main([pattern, f"--train_dir={folder}", *sizes, *usual, *more]) == 0
    return folder


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[pathlib.Path]:
    folder = tmp_path_factory.mktemp("members")
    return [trained(folder / "a"), trained(folder / "b", "--model=MoeModel", "--moving_average_decay=0.9")]


def predicted(folder: pathlib.Path, *flags: str) -> np.ndarray:
    output = folder / "predictions.csv"
    data = f"--input_data_pattern={golden('checkpoint_logistic/test.tfrecord')}"
    assert inference.main([data, f"--output_file={output}", "--top_k=10", *flags]) == 0
    table = np.zeros((21, 10))
    for row, line in enumerate(output.read_text().splitlines()[1:]):
        words = line.partition(",")[2].split()
        table[row, [int(word) for word in words[::2]]] = [float(word) for word in words[1::2]]
    return table


_LOAD = """
import json, sys
import tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
records = [record.numpy() for record in tf.data.TFRecordDataset(sys.argv[2])]
found = model.signatures["serving_default"](example_bytes=tf.constant(records))
print(json.dumps([found["class_indexes"].numpy().tolist(), found["predictions"].numpy().tolist()]))
"""


def test_one_model_of_two_runs(runs: list[pathlib.Path], tmp_path: pathlib.Path) -> None:
    words = ["--weights", "1", "3", f"--export_dir={tmp_path}/export", f"--output_model_tgz={tmp_path}/m.tgz"]
    words += [f"--output_onnx={tmp_path}/m.onnx"]
    assert cli.main(["ensemble", "--runs", *map(str, runs), *words]) == 0
    first, second = (predicted(tmp_path, f"--train_dir={run}") for run in runs)
    expected = (first + 3 * second) / 4
    packed = predicted(tmp_path, f"--input_model_tgz={tmp_path}/m.tgz", f"--untar_model_dir={tmp_path}/u")
    np.testing.assert_allclose(packed, expected, atol=3e-6)
    np.testing.assert_allclose(predicted(tmp_path, f"--train_dir={tmp_path}/m.onnx"), expected, atol=3e-6)
    command = [sys.executable, "-c", _LOAD, f"{tmp_path}/export", str(golden("checkpoint_logistic/test.tfrecord"))]
    classes, scores = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    found = np.zeros((21, 10))
    np.put_along_axis(found, np.array(classes), np.array(scores), axis=1)
    np.testing.assert_allclose(found, expected, atol=3e-6)


def test_runs_of_other_features_are_refused(
    runs: list[pathlib.Path], tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    other = trained(tmp_path / "c", "--feature_names=mean_rgb", "--feature_sizes=16")
    words = ["--runs", str(runs[0]), str(other), f"--export_dir={tmp_path}/e"]
    assert cli.main(["ensemble", *words]) == 2
    assert "has feature_names=('mean_rgb',), but" in capfd.readouterr().err
    words = ["--runs", str(runs[0]), str(tmp_path / "none"), f"--export_dir={tmp_path}/e"]
    assert cli.main(["ensemble", *words]) == 2
    assert "no such folder" in capfd.readouterr().err
    assert not (tmp_path / "e").exists()
