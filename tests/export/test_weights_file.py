"""The weights of a run as a NumPy file: which ones, equal to the bit, and read without TensorFlow."""

from __future__ import annotations

import hashlib
import json
import pathlib
import re
import subprocess
import sys
import types
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from golden_data import golden
from small_run import evaluate, run, weights

import yt8m
from yt8m import models
from yt8m.command_line import cli
from yt8m.export import model_card, weights_file
from yt8m.lazy import tf
from yt8m.records import span_rules, thresholds, vocabulary
from yt8m.types import ModelOutput

TEXTS = {"about.json", "README.md"}

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/users/future.md"
# An import of TensorFlow or of this package fails; then the block of the page runs on files in the current folder.
BEFORE = 'import sys\nsys.modules["tensorflow"] = sys.modules["yt8m"] = None\n'
AFTER = 'np.save("scores.npy", scores(np.load("features.npy")))\n'

# Prints {name: [dtype, shape, SHA-256 of the bytes]} of the arrays of a file.
DIGESTS = """
import hashlib, json, numpy as np
with np.load(sys.argv[1]) as file:
    arrays = {name: file[name] for name in file}
digest = lambda array: [str(array.dtype), list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()]
print(json.dumps({name: digest(array) for name, array in arrays.items()}))
"""


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


def keys_on_the_page() -> list[str]:
    """The keys of about.json in the table of the page on formats, in order."""
    section = PAGE.with_name("formats.md").read_text().partition("## The weights of a model")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    return [key for cell in cells for key in re.findall(r"`(\w+)`", cell)]


@pytest.mark.parametrize(("choice", "step"), [((), 12), (("--checkpoint=best",), 6), (("--checkpoint=6",), 6)])
def test_every_variable_of_the_model_is_equal_to_the_bit(
    trained: pathlib.Path, tmp_path: pathlib.Path, choice: tuple[str, ...], step: int
) -> None:
    file = exported(trained, tmp_path / "a.npz", *choice)
    about = json.loads(str(file["about.json"]))
    assert (about["model"], about["step"], about["is_averaged"]) == ("MoeModel", step, True)
    assert about["hyper_parameters"]["moe_num_mixtures"] == 2
    assert list(about) == keys_on_the_page()
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


def digests_by_numpy(path: pathlib.Path) -> dict[str, list[Any]]:
    """What NumPy reads of the file in a process that can import neither TensorFlow nor this package."""
    command = [sys.executable, "-c", BEFORE + DIGESTS, str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=path.parent)
    assert ended.returncode == 0, ended.stderr
    return dict(json.loads(ended.stdout))


def digest(array: np.ndarray) -> list[Any]:
    return [str(array.dtype), list(array.shape), hashlib.sha256(array.tobytes()).hexdigest()]


def variables_of_model(folder: pathlib.Path) -> dict[str, np.ndarray]:
    """The variables of the last checkpoint, without what only a training needs."""
    of_optimizer = re.compile(r"beta[12]_power|global_step|.*/Adam(_1)?")
    return {name: value for name, value in weights(folder, 12).items() if not of_optimizer.fullmatch(name)}


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["--model=MoeModel", "--precision=bfloat16"], {"gates/weights", "experts/weights", "experts/biases"}),
        (
            ["--model=ResidualMlpModel", "--mlp_hidden_size=8", "--mlp_blocks=0", "--precision=bfloat16"],
            {
                *("first/weights", "gates/weights", "experts/weights", "experts/biases"),
                *(f"first_bn/{name}" for name in ("beta", "gamma", "moving_mean", "moving_variance")),
            },
        ),
    ],
    ids=["bfloat16", "batch normalisation"],
)
def test_numpy_alone_reads_every_variable_to_the_bit(tmp_path: pathlib.Path, words: list[str], names: set[str]) -> None:
    assert run(tmp_path / "run", *words) == 0
    exported(tmp_path / "run", tmp_path / "a.npz")
    variables = variables_of_model(tmp_path / "run")
    assert variables.keys() == {f"tower/{name}" for name in names}
    assert all(value.any() and value.dtype == np.float32 for value in variables.values())
    arrays = digests_by_numpy(tmp_path / "a.npz")
    assert {name: arrays[name] for name in arrays.keys() - TEXTS} == {n: digest(v) for n, v in variables.items()}


@dataclass(frozen=True)
class HalfModel(models.BaseModel):
    """Logistic regression whose weights are bfloat16."""

    def create_model(self, model_input: Any, *, vocab_size: int, **_: Any) -> ModelOutput:
        half = tf.get_variable("half/weights", [model_input.shape[-1], vocab_size], tf.bfloat16)
        logits = tf.cast(tf.matmul(tf.cast(model_input, tf.bfloat16), half), tf.float32)
        return ModelOutput(predictions=tf.sigmoid(logits), logits=logits)


def test_a_variable_in_bfloat16_is_written_as_the_float32_of_the_same_value(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = types.ModuleType("halves")
    module.HalfModel = HalfModel
    monkeypatch.setitem(sys.modules, "halves", module)
    assert run(tmp_path / "run", "--model=halves:HalfModel") == 0
    exported(tmp_path / "run", tmp_path / "a.npz")
    value = weights(tmp_path / "run", 12)["tower/half/weights"]
    assert value.dtype == tf.bfloat16.as_numpy_dtype
    bits = value.view(np.uint16).astype(np.uint32) << 16  # bfloat16 is the upper half of float32
    assert digests_by_numpy(tmp_path / "a.npz")["tower/half/weights"] == digest(bits.view(np.float32))


def test_a_model_of_spans_brings_how_its_cells_are_joined(span_run: pathlib.Path, tmp_path: pathlib.Path) -> None:
    file = exported(span_run / "run", tmp_path / "a.npz")
    assert str(file[span_rules.NAME]) == (span_run / "run/eval" / span_rules.NAME).read_text()
    assert re.findall("weld|cut|bend", str(file[vocabulary.NAME])) == ["bend", "cut", "weld"]


def test_the_page_names_every_text_of_the_file() -> None:
    texts = (weights_file.ABOUT, model_card.NAME, vocabulary.NAME, thresholds.NAME, span_rules.NAME)
    section = PAGE.read_text().partition("## Weights without TensorFlow")[2].partition("```")[0]
    assert [name for name in texts if f"`{name}`" not in section] == []


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
