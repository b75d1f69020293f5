"""The variables that a Vertex AI job gets stand in where flags are not given."""

from __future__ import annotations

import pathlib

import pytest

from yt8m.command_line import flags

FOLDERS = {
    "AIP_CHECKPOINT_DIR": "gs://bucket/run/checkpoints/",
    "AIP_MODEL_DIR": "gs://bucket/run/model/",
    "AIP_TENSORBOARD_LOG_DIR": "gs://bucket/run/logs/",
}


@pytest.fixture
def in_a_job(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> str:
    """The variables of a job whose data lies here; the pattern of it."""
    (tmp_path / "a-1.tfrecord").touch()
    pattern = str(tmp_path / "a-*")
    data = {f"AIP_{part}_DATA_URI": pattern for part in ("TRAINING", "VALIDATION", "TEST")}
    for name, value in {**FOLDERS, **data}.items():
        monkeypatch.setenv(name, value)
    return pattern


def test_training_takes_them(in_a_job, bucket, monkeypatch):
    for name, folder in FOLDERS.items():  # training looks whether there is a run: the bucket has to exist
        monkeypatch.setenv(name, folder.replace("gs://bucket", bucket))
    config = flags.train_config([])
    assert config.train_dir == f"{bucket}/run/checkpoints"
    assert config.export_dir == f"{bucket}/run/model"
    assert config.log_dir == f"{bucket}/run/logs"
    assert config.data.data_pattern == in_a_job
    assert config.data.feature_names == ("mean_rgb",)  # as if the flag had been given


def test_evaluation_and_inference_take_theirs(in_a_job):
    evaluation, inference = flags.eval_config([]), flags.inference_config([])
    assert evaluation.train_dir == inference.train_dir == "gs://bucket/run/checkpoints"
    assert evaluation.eval_data_pattern == inference.input_data_pattern == in_a_job


def test_flags_win(in_a_job, tmp_path):
    (tmp_path / "b").touch()
    words = ["--train_dir=here", f"--train_data_pattern={tmp_path}/b", "--export_dir=there"]
    config = flags.train_config(words)
    assert (config.train_dir, config.export_dir, config.data.data_pattern) == ("here", "there", f"{tmp_path}/b")


def test_empty_variables_say_nothing():
    given = {"AIP_CHECKPOINT_DIR": "", "AIP_MODEL_DIR": " ", "AIP_TRAINING_DATA_URI": "gs://b/x"}
    assert flags.environment_defaults(flags.TRAIN, given) == {"train_data_pattern": "gs://b/x"}
