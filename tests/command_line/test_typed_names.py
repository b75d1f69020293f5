"""Errors speak of a flag by the name that was typed, and of a run that was given for a name."""

from __future__ import annotations

import pathlib

import pytest
from golden_data import golden

import yt8m
from yt8m.command_line import cli, typed_names
from yt8m.errors import UsageError


@pytest.mark.parametrize("name", ["data", "train_data_pattern"])
def test_an_error_names_the_flag_as_it_was_typed(
    name: str, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["train", f"--{name}={tmp_path}/none", f"--out={tmp_path}/run"]) == 2
    assert f"--{name}={tmp_path}/none: no file matches" in capfd.readouterr().err


def test_flags_that_are_repeated_under_two_names_are_both_shown(
    tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["train", "--data=a", f"--train_data_pattern={tmp_path}"]) == 2
    assert f"given twice: --data=a and --train_data_pattern={tmp_path}" in capfd.readouterr().err


@pytest.mark.parametrize("name", ["data", "train_data_pattern"])
def test_an_error_of_fit_names_the_argument_as_it_was_given(name: str, tmp_path: pathlib.Path) -> None:
    with pytest.raises(UsageError, match=f"^{name}='{tmp_path}/none': no file matches"):
        yt8m.fit(**{name: f"{tmp_path}/none"})


def test_commands_in_a_message_keep_their_flags() -> None:
    with typed_names.noting():
        typed_names.note("train_data_pattern", "data")
        typed_names.note("train_dir", "train_dir")
        message = "give --train_data_pattern=FILES (yt8m audit --train_data_pattern=x), or `a --train_data_pattern`"
        assert typed_names.in_typed_names(message) == message.replace("--train_data_pattern", "--data", 1)
        assert typed_names.in_typed_names("--train_dir=r") == "--train_dir=r"
        assert typed_names.in_typed_names("no--train_data_pattern --train_data_patterns") == (
            "no--train_data_pattern --train_data_patterns"
        )


def test_names_of_one_command_are_not_those_of_the_next() -> None:
    with typed_names.noting():
        typed_names.note("eval_dir", "out")
    assert typed_names.in_typed_names("--eval_dir") == "--eval_dir"
    with typed_names.noting():
        assert typed_names.in_typed_names("--eval_dir") == "--eval_dir"


@pytest.mark.parametrize("command", ["train", "audit"])
def test_a_run_in_place_of_the_name_of_a_model_is_refused_with_its_flags(
    command: str, tmp_path: pathlib.Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [f"--model={tmp_path}", f"--data={golden('tiny_video.tfrecord')}", f"--out={tmp_path}/out"]
    sizes = ["--feature_names=mean_rgb,mean_audio", "--feature_sizes=16,8", "--num_classes=10"]
    assert cli.main([command, *words, *sizes]) == 2
    said = capfd.readouterr().err
    assert f"--config={tmp_path} trains" in said
    assert f"--init_from={tmp_path}" in said
