"""What a training prints and exports at its end."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shutil

import pytest
from golden_data import golden
from small_run import WITHOUT_EXPORT, evaluate, run, train_words

from yt8m import scoring
from yt8m.command_line import cli, flags
from yt8m.config.data_config import DataConfig
from yt8m.config.train_config import TrainConfig
from yt8m.runner.run_config import Outcome, Status
from yt8m.training import splits, training_run


@pytest.mark.parametrize("is_rated", [False, True])
def test_the_command_that_it_suggests_evaluates_what_the_run_learned_from(
    capsys: pytest.CaptureFixture[str], is_rated: bool
) -> None:
    data = DataConfig(frame_features=True, segment_labels=is_rated, data_pattern="nowhere/train*")
    outcome = Outcome(Status.OUT_OF_DATA, 7, "all data were read")
    assert training_run.show_outcome(TrainConfig(data=data, train_dir="runs/a"), outcome) == 0
    flags = "--segment_labels --run_once" if is_rated else "--run_once"
    assert f"  yt8m eval --model=runs/a --data='FILES' {flags}\n" in capsys.readouterr().out


def test_after_a_training_on_spans_their_evaluation_is_suggested(
    capsys: pytest.CaptureFixture[str], span_run: pathlib.Path
) -> None:
    frames = f"{span_run}/data/frame"
    data = DataConfig(frame_features=True, segment_labels=True, data_pattern=f"{frames}/train/*.tfrecord")
    outcome = Outcome(Status.OUT_OF_DATA, 7, "all data were read")
    assert training_run.show_outcome(TrainConfig(data=data, train_dir="runs/a"), outcome) == 0
    text = capsys.readouterr().out
    assert f"  yt8m eval --model=runs/a --data='{frames}/validate/*.tfrecord' --spans\n" in text
    assert "  yt8m predict --model=runs/a --spans=found.csv " in text


@pytest.mark.heavy
def test_the_exported_model_replaces_that_of_another_run(tmp_path: pathlib.Path) -> None:
    """A run without a vocabulary leaves none of the former model, whose names would be given to other classes."""
    exported, vocabulary = tmp_path / "exported", tmp_path / "vocabulary.csv"
    vocabulary.write_text("Index,Name\n" + "".join(f"{index},name {index}\n" for index in range(10)))
    words = [f"--export_dir={exported}", "--max_steps=1"]
    assert run(tmp_path / "first", *words, f"--vocabulary={vocabulary}") == 0
    with scoring.open(str(exported)) as scorer:
        assert scorer.names.names == tuple(f"name {index}" for index in range(10))
    assert run(tmp_path / "second", *words) == 0
    files = {path.relative_to(exported) for path in exported.rglob("*") if path.is_file()}
    made = tmp_path / "second/export/1"
    assert files == {path.relative_to(made) for path in made.rglob("*") if path.is_file()}
    with scoring.open(str(exported)) as scorer:
        assert scorer.names.names == ()


@pytest.mark.heavy
def test_the_export_is_of_the_best_checkpoint_if_the_last_validation_found_it(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The loss falls from step to step, so each validation is the best one so far."""
    validated = f"--eval_data_pattern={golden('checkpoint_logistic/test.tfrecord')}"
    length = ["--max_steps=4", "--eval_every_n_steps=3", "--best_metric=loss", "--num_gpu=1"]
    words = [validated, *length, f"--export_dir={tmp_path}/out", "--export_model_steps=1000"]

    def train() -> None:
        config, data = flags.training(train_words(tmp_path / "run", *words))
        config, outcome = training_run.train(dataclasses.replace(config, checkpoint="best"), data)
        assert training_run.show_outcome(config, outcome) == 0

    train()
    assert json.loads((tmp_path / "run/best/best.json").read_text())["step"] == 4
    assert (tmp_path / "run/export/4/saved_model.pb").exists()
    assert f"the exported model: {tmp_path}/run/export/4\n" in capsys.readouterr().out
    assert (tmp_path / "out/saved_model.pb").exists()
    written = (tmp_path / "run/export/4/saved_model.pb").stat().st_ino
    train()  # no step is taken, and nothing exported again
    assert (tmp_path / "run/export/4/saved_model.pb").stat().st_ino == written


def test_a_training_that_exports_nothing_is_used_by_its_checkpoints(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path / "run", *WITHOUT_EXPORT) == 0
    assert not (tmp_path / "run/export").exists()
    assert "exported" not in capsys.readouterr().out
    assert evaluate(tmp_path / "run")["global_step"] == 12
    assert run(tmp_path / "new", *WITHOUT_EXPORT, f"--export_dir={tmp_path}/out") == 2
    error = capsys.readouterr().err
    assert "--export_model_steps" in error
    assert "--export_dir" in error
    assert not (tmp_path / "new").exists()


@pytest.mark.heavy
def test_a_step_that_is_taken_again_is_exported_again(tmp_path: pathlib.Path) -> None:
    folder = tmp_path / "run"
    words = ["--max_steps=4", "--save_checkpoint_steps=2", "--export_model_steps=1000"]
    assert run(folder, *words) == 0
    weights = folder / "export/4/variables/variables.data-00000-of-00001"
    former, written = weights.read_bytes(), weights.stat()
    assert run(folder, *words, "--base_learning_rate=1") == 0  # no step is taken
    assert (weights.read_bytes(), weights.stat().st_ino) == (former, written.st_ino)
    for path in folder.glob("model.ckpt-4.*"):
        path.unlink()
    assert run(folder, *words, "--base_learning_rate=1") == 0
    assert weights.read_bytes() != former


def test_the_validation_files_lie_beside_the_training_files(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for split in ("train", "validate"):
        (tmp_path / "training" / split).mkdir(parents=True)
        (tmp_path / "training" / split / f"{split}0000.tfrecord").touch()
    folder = tmp_path / "training"
    for pattern, expected in (("train/*.tfrecord", "validate/*.tfrecord"), ("train/train*", "validate/validate*")):
        data = DataConfig(data_pattern=f"{folder}/{pattern}")
        assert splits.proposed(data.data_pattern, "validate") == f"{folder}/{expected}"
    training_run.show_outcome(TrainConfig(train_dir="run", data=data), Outcome(Status.OUT_OF_DATA, 7, ""))
    assert f"--data='{folder}/validate/validate*'" in capsys.readouterr().out


def test_a_new_model_does_not_move_what_it_is_to_read(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    assert run(folder, "--max_steps=1") == 0
    for source in (folder, folder / "../run/"):
        assert run(folder, "--start_new_model", f"--init_from={source}") == 2
        assert f"is to read {source}" in capsys.readouterr().err
    assert (folder / "model.ckpt-1.index").exists()
    assert (
        run(folder, "--start_new_model", "--max_steps=1", f"--init_from={shutil.copytree(folder, f'{folder}2')}") == 0
    )


@pytest.mark.heavy
def test_a_start_whose_flags_do_not_fit_the_checkpoint_leaves_the_config(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The mean of checkpoints with moving averages holds these alone; without its config it could not be read."""
    folder, mean = tmp_path / "run", tmp_path / "mean"
    assert run(folder, "--max_steps=2", "--moving_average_decay=0.9") == 0
    assert cli.main(["average-checkpoints", f"--model={folder}", "--last=2", f"--out={mean}"]) == 0
    former = {path.name: path.read_bytes() for path in mean.glob("*.json") if path.name != "ended.json"}
    assert run(mean, "--max_steps=4") == 1
    assert {path.name: path.read_bytes() for path in mean.glob("*.json") if path.name != "ended.json"} == former
    evaluate(mean)
    assert "not of this model" in capsys.readouterr().err
