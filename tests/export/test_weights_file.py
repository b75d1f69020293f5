"""The weights of a run as a NumPy file: which ones, equal to the bit, and read without TensorFlow."""

from __future__ import annotations

import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from golden_data import golden
from small_run import evaluate, run, weights

import yt8m
from yt8m.command_line import cli

TEXTS = {"about.json", "README.md"}

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/users/future.md"
# An import of TensorFlow or of this package fails; then the block of the page runs on files in the current folder.
BEFORE = 'import sys\nsys.modules["tensorflow"] = sys.modules["yt8m"] = None\n'
AFTER = 'np.save("scores.npy", scores(np.load("features.npy")))\n'


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("weights") / "run"
    assert run(folder, "--model=MoeModel", "--save_checkpoint_steps=6", "--moving_average_decay=0.9") == 0
    evaluate(folder, "--keep_best", "--checkpoint=6")
    return folder


def exported(folder: pathlib.Path, path: pathlib.Path, *words: str) -> dict[str, np.ndarray]:
    assert cli.call("export", [f"--model={folder}", "--format=npz", f"--out={path}", *words]) == 0
    with np.load(path) as file:
        return {name: file[name] for name in file}


@pytest.mark.parametrize(("choice", "step"), [((), 12), (("--checkpoint=best",), 6), (("--checkpoint=6",), 6)])
def test_every_variable_of_the_model_is_equal_to_the_bit(
    trained: pathlib.Path, tmp_path: pathlib.Path, choice: tuple[str, ...], step: int
) -> None:
    file = exported(trained, tmp_path / "a.npz", *choice)
    about = json.loads(str(file["about.json"]))
    assert (about["model"], about["step"], about["is_averaged"]) == ("MoeModel", step, True)
    assert about["hyper_parameters"]["moe_num_mixtures"] == 2
    assert str(file["README.md"]).startswith(f"# MoeModel, step {step}\n")
    ending = "/ExponentialMovingAverage"
    averages = {n.removesuffix(ending): v for n, v in weights(trained, step).items() if n.endswith(ending)}
    assert averages
    assert file.keys() - TEXTS == averages.keys()
    for name, value in averages.items():
        assert file[name].dtype == value.dtype
        assert file[name].tobytes() == value.tobytes(), name


def test_the_same_command_writes_the_same_bytes(trained: pathlib.Path, tmp_path: pathlib.Path) -> None:
    exported(trained, tmp_path / "a.npz")
    exported(trained, tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_numpy_alone_reads_the_file_and_scores(tmp_path: pathlib.Path) -> None:
    """The code of the page, which imports neither TensorFlow nor this package, scores as `yt8m.load` does."""
    folder, data = tmp_path / "run", str(golden("checkpoint_logistic/test.tfrecord"))
    assert run(folder, "--model=LogisticModel") == 0
    file = exported(folder, tmp_path / "a.npz")
    assert file.keys() == {*TEXTS, "tower/fully_connected/weights", "tower/fully_connected/biases"}
    with yt8m.load(str(folder)) as model:
        expected = {video.id: {tag.index: tag.score for tag in video.classes} for video in model.predict(data)}
    (batch,) = yt8m.read_records(data, num_classes=10, batch_size=100, dequantize=True)
    features = [batch.features[name] for name in ("mean_rgb", "mean_audio")]
    np.save(tmp_path / "features.npy", np.concatenate(features, axis=1))
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    command = [sys.executable, "-c", BEFORE + block + AFTER]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    scores = np.load(tmp_path / "scores.npy")
    for video, row in zip(batch.ids, scores, strict=True):
        assert expected[video] == pytest.approx({index: row[index] for index in expected[video]}, abs=2e-6)
    assert len(expected) == len(scores) == 21


@pytest.mark.parametrize(
    ("words", "parts"),
    [
        (["--format=npz", "--out={new}"], [".npz"]),
        (["--format=npz", "--out={new}.onnx"], [".npz"]),
        (["--out={new}.npz"], ["--format=npz"]),
        (["--format=npz", "--out={new}.npz", "--weights=int8"], ["--weights", "--format=npz"]),
        (["--format=npz", "--out={new}.npz", "--data=x.tfrecord"], ["--data", "--format=npz"]),
        (["--format=npz", "--out={new}.npz", "--signature=mediapipe"], ["--signature", "--format=npz"]),
        (["--format=npz", "--out={new}.npz", "--input_type=uint8"], ["--input_type"]),
        (["--format=npz", "--out={new}.npz", "--checkpoint=5"], ["5", "12, 6, 0"]),
    ],
)
def test_what_cannot_be_is_refused(
    trained: pathlib.Path,
    tmp_path: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    parts: list[str],
) -> None:
    assert cli.main(["export", f"--model={trained}", *(word.format(new=tmp_path / "new") for word in words)]) == 2
    error = capsys.readouterr().err
    assert all(part in error for part in parts), error
    assert list(tmp_path.iterdir()) == []
