"""eval and inference name a run as other commands do, and take flags of its training as the published programs did."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from golden_data import golden

from yt8m.command_line import cli, flags, run_words
from yt8m.errors import UsageError
from yt8m.runs.opened_run import open_run

RUN = golden("run_format_1")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--model=runs/a", "--data=x"], ["--train_dir=runs/a", "--data=x"]),
        (["--model", "runs/a"], ["--train_dir", "runs/a"]),
        (["--model=gs://bucket/run"], ["--train_dir=gs://bucket/run"]),
        (["--model=./LogisticModel"], ["--train_dir=./LogisticModel"]),
        (["--model=LogisticModel", "--train_dir=a"], ["--model=LogisticModel", "--train_dir=a"]),
        (["--model=module:Class"], ["--model=module:Class"]),
        (["--train_dir=a"], ["--train_dir=a"]),
        (["--train_dir=a", "--model=auto", "--run_once"], ["--train_dir=a", "--run_once"]),
        (["--model", "runs/a/", "--train_dir=runs/a"], ["--train_dir=runs/a"]),
        (["--model=./runs/b/../a", "--train_dir=runs/a"], ["--train_dir=runs/a"]),
        (["--model=gs://bucket/run/", "--train_dir=gs://bucket/run"], ["--train_dir=gs://bucket/run"]),
    ],
)
def test_a_path_is_a_run_and_a_name_is_a_model(words: list[str], expected: list[str]) -> None:
    assert run_words.with_run_named(words) == expected


def test_two_runs_are_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=f"--model={tmp_path} and --train_dir=b name two runs"):
        run_words.with_run_named([f"--model={tmp_path}", "--train_dir=b"])


def test_a_packed_model_is_one_for_inference_only() -> None:
    assert run_words.with_run_named(["--model=a/m.tgz"], "input_model_tgz") == ["--input_model_tgz=a/m.tgz"]
    assert run_words.with_run_named(["--model=a/m.tgz"]) == ["--train_dir=a/m.tgz"]


def test_a_folder_without_a_slash_is_a_run(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"--model=mine: .*no such file"):
        run_words.with_run_named(["--model=mine"])
    (tmp_path / "mine").mkdir()
    assert run_words.with_run_named(["--model=mine"]) == ["--train_dir=mine"]
    assert run_words.with_run_named(["--model=auto", "--run_once"]) == ["--run_once"]
    (tmp_path / "auto").mkdir()
    assert run_words.with_run_named(["--model=auto", "--run_once"]) == ["--train_dir=auto", "--run_once"]
    assert run_words.with_run_named(["--model=auto", "--train_dir=mine"]) == ["--train_dir=mine"]
    (tmp_path / "MoeModel").mkdir()
    assert run_words.with_run_named(["--model=MoeModel"]) == ["--model=MoeModel"]


def test_both_programs_take_data_and_out() -> None:
    config = flags.eval_config([f"--model={RUN}", f"--data={golden('checkpoint_logistic/test.tfrecord')}", "--out=e"])
    assert (config.train_dir, config.eval_dir) == (str(RUN), "e")
    assert config.eval_data_pattern.endswith("test.tfrecord")
    inference = flags.inference_config([f"--model={RUN}", f"--data={config.eval_data_pattern}", "--out=p.csv"])
    assert (inference.train_dir, inference.output_file) == (str(RUN), "p.csv")
    assert inference.input_data_pattern == config.eval_data_pattern


def stated(*words: str) -> flags.EvalConfig:
    return flags.eval_config([f"--train_dir={RUN}", *words])


def test_flags_of_the_training_that_fit_the_run_change_nothing() -> None:
    data = open_run(str(RUN)).config.data
    words = [f"--feature_names={','.join(data.feature_names)}", "--noframe_features", "--model=LogisticModel"]
    config = stated(*words, f"--feature_sizes={','.join(map(str, data.feature_sizes))}")
    assert config.stated["feature_sizes"] == data.feature_sizes
    assert open_run(str(RUN), config).config == open_run(str(RUN)).config


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("--model=MoeModel", "--model=MoeModel: the run in .* was trained with LogisticModel"),
        ("--feature_names=rgb,audio", "--feature_names=rgb,audio: the run in .* was trained with"),
        ("--frame_features", "--frame_features=true: the run in .* was trained with false"),
    ],
)
def test_another_model_or_other_features_are_refused(word: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        open_run(str(RUN), stated(word))


def test_another_learning_rate_is_said(caplog: pytest.LogCaptureFixture) -> None:
    open_run(str(RUN), stated("--base_learning_rate=0.777"))
    assert "--base_learning_rate=0.777 has no effect" in caplog.text


@pytest.mark.parametrize("parse", [flags.eval_config, flags.inference_config])
def test_published_flags_of_a_training_alone_are_taken_and_said(parse: Any, caplog: pytest.LogCaptureFixture) -> None:
    words = ["--train_data_pattern=x", "--start_new_model", "--max_steps=7", "--export_model_steps=9"]
    open_run(str(RUN), parse([f"--train_dir={RUN}", *words, "--log_device_placement", "--out=o"]))
    for said in ("train_data_pattern=x", "start_new_model=true", "max_steps=7", "export_model_steps=9"):
        assert f"--{said} has no effect: " in caplog.text
    assert (RUN / "config.json").is_file()


def test_what_only_a_training_does_stays_unknown() -> None:
    with pytest.raises(UsageError, match="unknown flag --patience"):
        stated("--patience=3")


def test_another_number_of_classes_than_that_of_the_run_is_refused() -> None:
    classes = open_run(str(RUN)).config.data.num_classes
    config = flags.eval_config([f"--train_dir={RUN}", "--num_classes=3000"])
    with pytest.raises(UsageError, match=f"--num_classes=3000: .* was trained with {classes}"):
        open_run(str(RUN), config)


def test_a_training_says_what_takes_a_run_that_is_given_as_its_model(capsys: pytest.CaptureFixture[str]) -> None:
    data = golden("checkpoint_logistic/test.tfrecord")
    assert cli.main(["train", f"--model={RUN}", f"--data={data}"]) == 2
    message = capsys.readouterr().err
    assert f"--init_from={RUN}" in message
    assert f"--train_dir={RUN}" in message
    assert "MoeModel" not in message
