"""A run whose config says `checkpoint: best`: every command takes those weights, and says so."""

from __future__ import annotations

import dataclasses
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator

import cases
import numpy as np
import pytest
from golden_data import golden
from small_run import ROOT, evaluate, run, train_words, weights

from yt8m.command_line import cli
from yt8m.config import run_dir
from yt8m.lazy import tf
from yt8m.runs.best_checkpoint import replace_best

BEST, LAST = 8, 12
TRAIN, TEST = (str(golden(f"checkpoint_logistic/{name}.tfrecord")) for name in ("train", "test"))
SAID = f"step {BEST}, the best by validation"


def mean_best(folder: pathlib.Path) -> None:
    """Makes step 8 the best one of the run, and its config say so."""
    replace_best(str(folder), str(folder / f"model.ckpt-{BEST}"), BEST, {"gap": 0.9})
    saved = run_dir.read(str(folder))
    assert saved is not None
    run_dir.write(str(folder), dataclasses.replace(saved.config, checkpoint="best"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A run with the checkpoints 4, 8 and 12, which was evaluated, so that it can be a teacher."""
    folder = tmp_path_factory.mktemp("best") / "run"
    assert run(folder, "--save_checkpoint_steps=4", "--keep_checkpoints=9") == 0
    (folder / "vocabulary.csv").write_text("index,name\n" + "".join(f"{n},class {n}\n" for n in range(10)))
    mean_best(folder)
    evaluate(folder)
    return folder


# {command: its words}, in which RUN and OUT stand for the run and a new path.
COMMANDS = {
    "predict": ["predict", "--model=RUN", TEST],
    "eval": ["eval", "--train_dir=RUN", f"--eval_data_pattern={TEST}", "--run_once"],
    "inference": ["inference", "--train_dir=RUN", f"--input_data_pattern={TEST}", "--output_file=OUT.csv"],
    "export": ["export", "--train_dir=RUN", "--out=OUT"],
    "--init_from": ["train", *train_words(pathlib.Path("OUT"), "--init_from=RUN", "--max_steps=1")],
    "--teacher": ["train", *train_words(pathlib.Path("OUT"), "--teacher=RUN", "--max_steps=1")],
    "ensemble": ["ensemble", "--model=RUN,RUN", "--out=OUT"],
    "average-checkpoints": ["average-checkpoints", "--train_dir=RUN", "--out=OUT", "--last=2"],
}


@pytest.mark.long
@pytest.mark.parametrize("command", cases.only(COMMANDS, ["predict"]))
def test_the_line_that_names_the_weights_says_that_they_are_the_best(
    folder: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str], command: str
) -> None:
    words = [word.replace("RUN", str(folder)).replace("OUT", f"{tmp_path}/out") for word in COMMANDS[command]]
    assert cli.main(words) == 0
    assert SAID in capfd.readouterr().err


@pytest.fixture
def serving(folder: pathlib.Path) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-m", "yt8m", "serve", f"--model={folder}", "--port=0"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
        yield process
        process.kill()


@pytest.mark.long
@pytest.mark.heavy
def test_serve_says_it_too(serving: subprocess.Popen[str]) -> None:
    assert serving.stderr is not None
    assert any(SAID in line for line in serving.stderr)


@pytest.mark.heavy
@pytest.mark.long
def test_classes_are_added_to_the_best_weights(
    folder: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    names = "".join(f"{n},class {n}\n" for n in range(11))
    (tmp_path / "vocabulary.csv").write_text(f"index,name\n{names}")
    shutil.copy(TRAIN, tmp_path / "train.tfrecord")
    words = [f"--model={folder}", f"--data={tmp_path}/train.tfrecord", f"--out={tmp_path}/out"]
    assert cli.main(["add-classes", *words]) == 0
    assert SAID in capfd.readouterr().err


@pytest.mark.long
def test_the_weights_are_those_of_the_best_checkpoint(folder: pathlib.Path, tmp_path: pathlib.Path) -> None:
    name = "tower/fully_connected/weights"
    best, before, last = (weights(folder, step)[name] for step in (BEST, 4, LAST))
    assert not np.allclose(best, last)
    assert cli.main(["train", *train_words(tmp_path / "more", f"--init_from={folder}", "--max_steps=0")]) == 0
    np.testing.assert_array_equal(weights(tmp_path / "more", 0)[name], best)
    assert cli.main(["average-checkpoints", f"--train_dir={folder}", f"--out={tmp_path}/mean", "--last=2"]) == 0
    mean = weights(tmp_path / "mean", BEST)[name]
    np.testing.assert_allclose(mean, (best.astype(np.float64) + before) / 2, rtol=1e-6)
    teacher = tf.train.load_checkpoint(str(folder / "inference_model/inference_model"))
    np.testing.assert_array_equal(teacher.get_tensor(name), best)


@pytest.mark.long
def test_too_few_checkpoints_before_the_best_and_a_teacher_of_other_weights_are_refused(
    folder: pathlib.Path, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["average-checkpoints", f"--train_dir={folder}", f"--out={tmp_path}/mean", "--last=4"]) == 2
    assert "--last=4" in capfd.readouterr().err
    other = tmp_path / "other"
    shutil.copytree(folder, other)
    saved = run_dir.read(str(other))
    assert saved is not None
    replace_best(str(other), str(other / f"model.ckpt-{LAST}"), LAST, {"gap": 0.95})
    words = [*train_words(tmp_path / "out", f"--teacher={other}", "--max_steps=1")]
    assert cli.main(["train", *words]) == 2
    said = capfd.readouterr().err
    assert f"step {BEST}" in said
    assert f"step {LAST}" in said
    assert "yt8m eval" in said
