"""No data named: only a bare training, and a bare evaluation or inference of its run, take the sample data."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest
import small_run

import yt8m
from yt8m import eval as evaluation
from yt8m import inference, train
from yt8m.config.data_config import DataConfig
from yt8m.datasets import sample_data
from yt8m.errors import UsageError
from yt8m.runs import default_data

FEW = {"train": 64, "validate": 32, "test": 16, "shards": 1}  # fewer videos than usual, which is no part of the rule


@pytest.fixture(scope="module")
def own_run(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("own") / "run"
    assert small_run.run(folder) == 0
    return folder


@pytest.fixture
def no_cache(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Where sample data would be generated."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.parametrize("program", ["eval", "inference", "train"])
def test_a_run_of_other_data_needs_its_files(
    program: str, own_run: pathlib.Path, no_cache: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main, words, flag = {
        "eval": (evaluation.main, ["--run_once"], "eval_data_pattern"),
        "inference": (inference.main, [f"--output_file={no_cache}.csv"], "input_data_pattern"),
        "train": (train.main, [*small_run.FEATURES, "--max_steps=20"], "train_data_pattern"),
    }[program]
    assert main([f"--train_dir={own_run}", *words]) == 2
    said = capsys.readouterr().err
    assert f"--{flag} is missing" in said
    assert "train.tfrecord" in said  # what it was trained on
    assert "--data" in said
    assert not no_cache.exists()


def test_python_names_its_data(no_cache: pathlib.Path, tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match="train_data_pattern"):
        yt8m.fit(train_dir=tmp_path / "run", model="LogisticModel")
    assert not no_cache.exists()


def test_a_bare_training_says_sample_data_first_and_last(
    tmp_path: pathlib.Path, no_cache: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    generate_once = sample_data.generate_once
    monkeypatch.setattr(sample_data, "generate_once", lambda config: generate_once(dataclasses.replace(config, **FEW)))
    monkeypatch.chdir(tmp_path)
    options = ["--batch_size=16", "--export_model_steps=none"]
    assert train.main([*options, "--max_steps=2"]) == 0
    printed = capsys.readouterr()
    (run,) = (tmp_path / "runs").iterdir()
    words = [f"--train_dir={run}", *options]
    assert any("SAMPLE DATA" in line for line in printed.err.splitlines()[:2])
    assert "SAMPLE DATA" in printed.out.splitlines()[-1]
    assert evaluation.main([words[0], "--run_once"]) == 0
    assert inference.main([words[0], f"--output_file={tmp_path}/predictions.csv"]) == 0
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 17
    assert train.main([*words, "--max_steps=3"]) == 0  # it goes on


@pytest.mark.parametrize(
    "word",
    [
        *(
            "--train_dir=runs/mine",
            "--init_from={run}",
            "--feature_names=mean_rgb,mean_audio",
            "--feature_names=clip --feature_sizes=16",
        ),
        *(
            "--num_classes=3862",
            "--frame_features --model=FrameLevelLogisticModel",
            "--eval_data_pattern=data/a.tfrecord",
        ),
        *("--export_dir=exported", "--log_dir=logs", "--vocabulary={vocabulary}", "--cache=auto"),
    ],
)
def test_a_training_that_means_other_data_needs_their_files(
    word: str,
    own_run: pathlib.Path,
    no_cache: pathlib.Path,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "classes.csv").write_text("index,name\n0,cat\n")
    assert train.main(word.format(run=own_run, vocabulary="classes.csv").split()) == 2
    said = capsys.readouterr().err
    assert "--train_data_pattern is missing" in said
    assert any(f"beside {each.partition('=')[0]}." in said for each in word.split())
    assert not no_cache.exists()
    assert not (tmp_path / "runs").exists()


def test_sample_data_are_known_by_their_place(no_cache: pathlib.Path) -> None:
    assert default_data.is_sample_data(DataConfig(data_pattern=f"{no_cache}/yt8m/sample-data-1-video-2/video/a"))
    assert not default_data.is_sample_data(DataConfig(data_pattern="data/sample/a"))


@pytest.mark.parametrize("level", ["video", "frame", "segment"])
def test_only_the_folders_of_the_cache_are_sample_data(level: str) -> None:
    """One's own data may lie in a folder with a similar name, such as that of `yt8m sample-data --out`."""
    cached = f"{sample_data.cached_sample_data(level).out}/{level}/train/*.tfrecord"
    assert default_data.is_sample_data(DataConfig(data_pattern=cached))
    for folder in ("sample-data-small", "sample-data-4", "sample-data-2026-07/v"):
        own = f"/home/me/yt8m/{folder}/video/train/*.tfrecord"
        assert not default_data.is_sample_data(DataConfig(data_pattern=own))
