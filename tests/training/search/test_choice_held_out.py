"""A choice whose videos are kept apart, without a split `validate`: a share is held out of the whole training."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import small_run
from training.search.own_data import write_rings

import yt8m
from yt8m.command_line import cli
from yt8m.config import run_dir
from yt8m.config.train_config import TrainConfig
from yt8m.eval_util.evaluation_metrics import EvaluationMetrics
from yt8m.readers import BatchQueue
from yt8m.records import groups, held_out, shards
from yt8m.records.held_out import HeldOut
from yt8m.records.opened_data import open_data
from yt8m.training import numpy_records

# A search of two candidates, in a process of its own, so that it can be killed.
_PROGRAM = """
import sys
from yt8m.command_line import cli
from yt8m.training.search import candidates, plan
from yt8m.training.search.budget_clock import BudgetClock
from yt8m.training.search.candidates import Candidate
candidates._CANDIDATES = (
    Candidate("GatedMlpModel", "standardize", 0.003, 0.01), Candidate("LogisticModel", "standardize", 0.01, 0.01),
)
BudgetClock.spent = lambda _: 0.0
plan._STEPS, plan._EPOCHS = 40, 1
sys.exit(cli.main(sys.argv[1:]))
"""


def words_of(pattern: str, folder: object) -> list[str]:
    return [
        *("train", f"--data={pattern}", f"--out={folder}", "--norefit", "--export_model_steps=0", "--exact_resume"),
        "--log_every_n_steps=1",
    ]


def train(words: list[str], kill_after: str = "") -> str:
    """Trains; returns what was printed and logged. With `kill_after`, kills the training once it has logged that."""
    command, output = [sys.executable, "-c", _PROGRAM, *words], ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            output += line
            if kill_after and kill_after in line:
                os.kill(process.pid, signal.SIGKILL)
    assert process.returncode == (-9 if kill_after else 0), output
    return output


@pytest.fixture(scope="module")
def rings(tmp_path_factory: pytest.TempPathFactory) -> str:
    """400 videos of one split, of which each four belong together."""
    folder = tmp_path_factory.mktemp("rings")
    pattern = write_rings(folder, splits="train")
    videos = groups.digests([f"v{k}".encode() for k in range(400)])
    of_videos = groups.digests([str(k // 4).encode() for k in range(400)])
    groups.Groups.from_digests(videos, of_videos).write(str(folder / "data/video" / groups.NAME))
    return pattern


@pytest.fixture(scope="module")
def trained(rings: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, str]:
    """The folder of a run, and what was said."""
    folder = tmp_path_factory.mktemp("held_out") / "run"
    return folder, train(words_of(rings, folder))


def config_of(folder: pathlib.Path) -> TrainConfig:
    saved = run_dir.read(str(folder))
    assert saved is not None
    return saved.config


def weights_of(folder: pathlib.Path) -> dict[str, Any]:
    return small_run.weights(folder, config_of(folder).max_steps or 0)


def validations_of(folder: pathlib.Path) -> list[dict[str, Any]]:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [{k: v for k, v in line.items() if "time" not in k} for line in lines if line.get("mode") == "validate"]


@pytest.mark.heavy
@pytest.mark.long
def test_the_share_is_whole_groups_which_nothing_of_the_training_reads(
    rings: str, trained: tuple[pathlib.Path, str]
) -> None:
    folder, said = trained
    config = config_of(folder)
    ids = [record.id().decode() for path in open_data(rings).files for _, record in shards.read_contexts(path)]
    is_out = HeldOut(config.data.held_out, open_data(rings).files).of_texts(ids)
    groups_held_out = {int(name[1:]) // 4 for name, is_one in zip(ids, is_out, strict=True) if is_one}
    assert (len(ids), int(is_out.sum()), len(groups_held_out)) == (400, 40, 10)
    assert config.data.batch_size == 32
    assert config.search.quoted["training_videos"] == 360
    assert "trained on 360 videos, compared on 40" in said
    assert "the same 40 of 40 videos" in said
    assert "files of the training" not in said, "they are, but not its videos"
    assert (config.checkpoint, config.validation.eval_data_pattern) == ("best", rings)
    assert f"eval_data_pattern {rings}: 40 of these 400 videos are held out" in said
    assert {row["examples"] for row in validations_of(folder)} == {40}
    expected = {name for name, is_one in zip(ids, is_out, strict=True) if not is_one}
    read = [name for batch in numpy_records.read_batches(config.data, rings) for name in batch.ids]
    assert sorted(read) == sorted(expected), "by which values are standardised"
    assert BatchQueue.for_config(config.data, "train").held_out == config.data.held_out


@pytest.mark.heavy
@pytest.mark.long
def test_data_that_were_moved_without_their_groups_are_refused(
    rings: str, trained: tuple[pathlib.Path, str], tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = trained
    assert held_out.BY_GROUP in config_of(folder).data.held_out
    level = pathlib.Path(rings).parents[1]
    shutil.copytree(level, tmp_path / "moved/video")
    shutil.copytree(folder, tmp_path / "run")
    (tmp_path / "moved/video" / groups.NAME).unlink()
    words = words_of(str(tmp_path / "moved/video/train" / pathlib.Path(rings).name), tmp_path / "run")
    assert cli.main(words) == 2
    said = capsys.readouterr().err
    assert f"none in {tmp_path}/moved/video. " in said
    assert f"the run began, {rings}. " in said


@pytest.mark.heavy
@pytest.mark.long
def test_the_best_checkpoint_has_the_figure_that_is_quoted(rings: str, trained: tuple[pathlib.Path, str]) -> None:
    folder, said = trained
    note = json.loads((folder / "best/best.json").read_text())
    share = HeldOut(config_of(folder).data.held_out, open_data(rings).files)
    metrics = EvaluationMetrics(3, 20)
    with yt8m.load(str(folder)) as model:
        for batch in yt8m.read_records(rings):
            rows = np.flatnonzero(share.of_texts(batch.ids))
            scores = np.zeros((len(rows), 3), np.float32)
            for row, video in enumerate(model.predict({"clip": batch.features["clip"][rows]}, top_k=3)):
                for scored in video.classes:
                    scores[row, scored.index] = scored.score
            metrics.accumulate(scores, batch.labels[rows])
    assert metrics.get()["gap"] == pytest.approx(note["figures"]["GAP"], abs=1e-5)
    figures = f"mAP {note['figures']['mAP']:.4f}, GAP {note['figures']['GAP']:.4f}"
    assert f"the best checkpoint, of step {note['step']}: {figures}" in said


@pytest.mark.heavy
@pytest.mark.long
@pytest.mark.parametrize("after", ["validation at step ", "saved "])
def test_a_training_that_was_killed_ends_as_the_unbroken_one(
    rings: str, trained: tuple[pathlib.Path, str], tmp_path: pathlib.Path, after: str
) -> None:
    folder, _ = trained
    train(words_of(rings, tmp_path / "run"), kill_after=after)
    said = train(words_of(rings, tmp_path / "run"))
    assert "choosing a model" not in said
    assert config_of(tmp_path / "run").data == config_of(folder).data
    expected, found = weights_of(folder), weights_of(tmp_path / "run")
    assert expected.keys() == found.keys()
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values, err_msg=name)
    steps = [row["step"] for row in validations_of(tmp_path / "run")]
    of_run = {row["step"]: row for row in validations_of(tmp_path / "run")}
    assert len(steps) == len(of_run)
    assert of_run == {row["step"]: row for row in validations_of(folder)}


@pytest.mark.heavy
@pytest.mark.long
def test_a_later_start_on_files_elsewhere_holds_out_by_the_same_rule(
    rings: str, trained: tuple[pathlib.Path, str], tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder, _ = trained
    shutil.copytree(folder, tmp_path / "run")
    shutil.copytree(pathlib.Path(rings).parents[2], tmp_path / "data")
    pattern = f"{tmp_path}/data/video/train/*.tfrecord"
    words = [word for word in words_of(pattern, tmp_path / "run") if word != "--exact_resume"]
    assert cli.main([*words, f"--max_steps={(config_of(folder).max_steps or 0) + 40}"]) == 0
    config = config_of(tmp_path / "run")
    assert config.data.held_out == config_of(folder).data.held_out
    assert config.validation.eval_data_pattern == config.data.data_pattern == pattern
    assert "videos that are held out" in capfd.readouterr().err
    assert cli.main(["predict", f"--model={tmp_path}/run", pattern]) == 0
    assert "held out to choose it" not in capfd.readouterr().err
