"""`yt8m eval --report --calibrated_run`: scores whose shares are known, and a run that gives them."""

from __future__ import annotations

import csv
import json
import pathlib
import re

import numpy as np
import pytest
from reader_records import video_record, write_shard

import yt8m
from yt8m import eval as evaluation
from yt8m.command_line import cli
from yt8m.config.data_config import DataConfig
from yt8m.config.train_config import ModelConfig, TrainConfig
from yt8m.eval_util.score_calibration import Calibration, PlattScaling
from yt8m.export import derived_runs
from yt8m.records import vocabulary
from yt8m.records.thresholds import OperatingPoints
from yt8m.runs.opened_run import open_run
from yt8m.training.checkpoint_import import write_run

CLASSES, SIZE, VIDEOS, SLOPE, INTERCEPT = 5, 8, 1500, 0.25, -1.0
NAMES = [f"class {number}" for number in range(CLASSES)]
DRAW = np.random.default_rng(3)
FEATURES = DRAW.normal(size=(VIDEOS, SIZE)).astype(np.float32)
WEIGHTS = DRAW.normal(scale=4, size=(SIZE, CLASSES)).astype(np.float32)
BIASES = DRAW.normal(size=CLASSES).astype(np.float32)
LOGITS = FEATURES / np.linalg.norm(FEATURES, axis=1, keepdims=True) @ WEIGHTS + BIASES
LABELS = DRAW.random(LOGITS.shape) < 1 / (1 + np.exp(-(SLOPE * LOGITS + INTERCEPT)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A run whose logits are too far from 0, after an evaluation that calibrates it."""
    folder = tmp_path_factory.mktemp("calibrated")
    data = DataConfig(feature_names=("mean_planted",), feature_sizes=(SIZE,), num_classes=CLASSES)
    config = TrainConfig(train_dir=f"{folder}/zero", data=data, model=ModelConfig("LogisticModel"))
    values = {"tower/fully_connected/weights": WEIGHTS, "tower/fully_connected/biases": BIASES}
    write_run(config, values, 7, vocabulary.of_names(NAMES), "made of vectors")
    records = [
        video_record(id=[b"v%d" % row], labels=np.flatnonzero(LABELS[row]), mean_planted=FEATURES[row])
        for row in range(VIDEOS)
    ]
    write_shard(folder / "test.tfrecord", records)
    assert evaluate(folder, "zero", f"--calibrated_run={folder}/calibrated") == 0
    return folder


def evaluate(folder: pathlib.Path, run: str, *more: str, data: str = "test") -> int:
    words = [f"--train_dir={folder}/{run}", f"--eval_data_pattern={folder}/{data}.tfrecord", "--run_once", "--report"]
    return evaluation.main([word for word in words if f"--no{word[2:]}" not in more] + list(more))


def scores_of(run: pathlib.Path) -> np.ndarray:
    with yt8m.load(run) as model:
        videos = list(model.predict({"mean_planted": FEATURES}, top_k=CLASSES))
    return np.array([[{one.name: one.score for one in video.classes}[name] for name in NAMES] for video in videos])


def thresholds_of(run: pathlib.Path) -> np.ndarray:
    with open(run / "eval/thresholds.csv", newline="") as file:
        return np.array([float(row["threshold"]) for row in csv.DictReader(file)])


def test_the_report_has_the_scaling_and_figures_of_other_videos(folder: pathlib.Path) -> None:
    found = json.loads((folder / "zero/eval/report.json").read_text())["calibration"]
    assert (found["videos"], found["predictions"]) == (VIDEOS, VIDEOS * CLASSES)
    assert found["slope"] == pytest.approx(SLOPE, abs=0.02)
    assert found["intercept"] == pytest.approx(INTERCEPT, abs=0.1)
    assert found["ece"] > 0.1
    assert found["ece_scaled"] < 0.02
    page = (folder / "zero/eval/report.html").read_text()
    assert f"measured on the other): zero: {found['ece_scaled']:.3f}." in page


def test_the_scores_of_the_calibrated_run_are_the_scaled_ones(folder: pathlib.Path) -> None:
    found = json.loads((folder / "zero/eval/report.json").read_text())["calibration"]
    expected = 1 / (1 + np.exp(-(found["slope"] * LOGITS + found["intercept"])))
    np.testing.assert_allclose(scores_of(folder / "calibrated"), expected, atol=1e-5)


@pytest.mark.heavy
def test_tags_stay_and_the_scaling_of_the_calibrated_run_is_none(folder: pathlib.Path) -> None:
    tags = [scores_of(folder / run) >= thresholds_of(folder / run) for run in ("zero", "calibrated")]
    np.testing.assert_array_equal(*tags)
    assert 0 < tags[0].mean() < 1
    assert evaluate(folder, "calibrated") == 0
    old, new = (json.loads((folder / run / "eval/report.json").read_text()) for run in ("zero", "calibrated"))
    assert (new["calibration"]["slope"], new["calibration"]["intercept"]) == pytest.approx((1, 0), abs=1e-3)
    assert new["calibration"]["log_loss"] < old["calibration"]["log_loss"] / 2
    assert new["global_step"] == 7
    for metric in ("gap", "map", "hit_at_one", "perr"):  # they depend on the order of the scores alone
        assert new[metric] == pytest.approx(old[metric], abs=1e-5)


@pytest.mark.heavy
def test_training_goes_on_from_a_calibrated_run(folder: pathlib.Path) -> None:
    words = [f"--train_data_pattern={folder}/test.tfrecord", f"--train_dir={folder}/on", "--max_steps=2"]
    words += ["--feature_names=mean_planted", f"--feature_sizes={SIZE}", f"--num_classes={CLASSES}"]
    assert cli.main(["train", *words, f"--init_from={folder}/calibrated", "--base_learning_rate=1e-9"]) == 0
    np.testing.assert_allclose(scores_of(folder / "on"), scores_of(folder / "calibrated"), atol=1e-5)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--calibrated_run={}/calibrated"], "calibrated_run={}/calibrated exists already"),
        (["--calibrated_run={}/new", "--norun_once"], "calibrates a single checkpoint: add --run_once"),
        (["--calibrated_run={}/new", "--noreport"], "--calibrated_run needs --report"),
    ],
)
def test_what_is_refused(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str], words: list[str], problem: str
) -> None:
    assert evaluate(folder, "zero", *(word.format(folder) for word in words)) == 2
    assert problem.format(folder) in capsys.readouterr().err


@pytest.mark.heavy
def test_other_models_and_scores_that_cannot_be_calibrated_are_refused(
    folder: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = [f"--train_data_pattern={folder}/test.tfrecord", "--feature_names=mean_planted", "--max_steps=1"]
    data += [f"--feature_sizes={SIZE}", f"--num_classes={CLASSES}", "--model=MoeModel", f"--train_dir={folder}/moe"]
    assert cli.main(["train", *data]) == 0
    assert evaluate(folder, "moe", f"--calibrated_run={folder}/new") == 2
    assert "moe is a MoeModel" in capsys.readouterr().err
    wrong = [
        video_record(id=[b"v%d" % row], labels=np.flatnonzero(LOGITS[row] < 0), mean_planted=FEATURES[row])
        for row in range(200)
    ]
    unlabelled = [video_record(id=[b"v%d" % row], labels=[], mean_planted=FEATURES[row]) for row in range(20)]
    for records, problem in (
        (wrong, "higher scores are not right more often"),
        (unlabelled, "Evaluate more videos with labels"),
    ):
        write_shard(folder / "other.tfrecord", records)
        words = [f"--eval_dir={folder}/{len(records)}", f"--calibrated_run={folder}/new"]
        assert evaluate(folder, "zero", *words, data="other") == 1
        assert problem in capsys.readouterr().err
        assert not (folder / "new").exists()


@pytest.mark.parametrize(("before", "after"), [(0.2, 0.3), (0.3, 0.2)])
def test_a_scaling_that_makes_other_videos_worse_is_called_so(
    folder: pathlib.Path, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture, before: float, after: float
) -> None:
    run = open_run(f"{folder}/zero")
    ones = np.ones(CLASSES)
    points = OperatingPoints(0.5 * ones, ones > 0, ones.astype(np.int64), ones, ones, ones)
    calibration = Calibration(PlattScaling(0.5, 1.0), 24, 120, 0.1, 0.1, before, after)
    names = vocabulary.of_names(NAMES)
    derived_runs.write_calibrated(f"{tmp_path}/out", run, run.newest_checkpoint(), calibration, points, names)
    assert (tmp_path / "out/config.json").exists()
    assert bool(re.search(r"worse .*\(log loss 0\.3, before 0\.2\)", caplog.text)) == (after > before)
