"""Flags under the names of other programs lead to the flag that is meant, before similar spelling does."""

from __future__ import annotations

import contextlib
import re

import pytest
from small_run import ROOT

from yt8m.command_line import cli, synonyms

TRAIN = {
    "lr": "base_learning_rate",
    "LR": "base_learning_rate",
    "learning-rate": "base_learning_rate",
    "base-learning-rate": "base_learning_rate",
    "gpus": "num_gpu",
    "epochs": "num_epochs",
    "batch": "batch_size",
    "loss": "label_loss",
    "early_stopping": "patience",
    "weights": "init_from",
    "workers": "num_readers",
    "name": "train_dir",
    "project": "train_dir",
    "output_dir": "train_dir",
    "dropout": "drop_rate",
    "freeze": "train_only",
}


def flags_of(program: str, capsys: pytest.CaptureFixture[str]) -> set[str]:
    with contextlib.suppress(SystemExit):
        cli.main([program, "--help=all"])
    lines = (line.strip() for line in capsys.readouterr().out.splitlines())
    return {line[2:].split("=")[0].split()[0].removeprefix("[no]") for line in lines if line.startswith("--")}


@pytest.mark.parametrize(("word", "flag"), TRAIN.items())
def test_training_names_the_flag(word: str, flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["train", f"--{word}=1"]) == 2
    assert f"unknown flag --{word}; did you mean --{flag}?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("program", "word", "part"),
    [
        ("train", "resume", "--train_dir"),
        ("train", "device", "--num_gpu"),
        ("train", "wandb", "--callbacks"),
        ("train", "modle", "did you mean --model?"),
        ("predict", "weights", "did you mean --model?"),
        ("predict", "topk", "did you mean --top_k?"),
        ("predict", "lr", "--help=all"),
        ("make-records", "csv", "did you mean --table?"),
        ("make-records", "features", "did you mean --array?"),
        ("make-records", "sep", "did you mean --label_separator?"),
        ("make-records", "sheet", "#SHEET"),
        ("extract", "workers", "did you mean --jobs?"),
        ("predict", "embeddings", "did you mean --features?"),
        ("export", "onnx", "did you mean --format?"),
        # No guess where it would cost a run, or lead elsewhere.
        ("train", "data_dir", "did you mean --data?"),
        ("train", "pretrained_model", "did you mean --init_from?"),
        ("train", "num_heads", "--help=all"),
        ("train", "params", "--help=all"),
        ("train", "overwritten", "--help=all"),
    ],
)
def test_a_program_without_the_flag_says_what_it_has(
    program: str, word: str, part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([program, f"--{word}=1"]) == 2
    assert part in capsys.readouterr().err


def test_every_word_leads_to_a_flag_of_some_program(capsys: pytest.CaptureFixture[str]) -> None:
    flags = set().union(*(flags_of(program, capsys) for program in cli.COMMANDS))
    assert {flag for meant in synonyms._MEANT.values() for flag in meant.split()} <= flags
    assert {word for word in synonyms._MEANT if word in flags_of("train", capsys)} == set()


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["fit"], "did you mean train?"),
        (["test"], "did you mean eval?"),
        (["infer"], "did you mean inference?"),
        (["convert"], "did you mean make-records?"),
        (["version"], "did you mean --version?"),
        (["trian"], "did you mean train?"),
        (["--model=x"], "a command comes first"),
    ],
)
def test_a_command_under_another_name(words: list[str], part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2
    assert part in capsys.readouterr().err


def test_each_command_that_is_meant_exists() -> None:
    assert {meant.split()[0] for meant in synonyms._COMMANDS.values()} - {"--version"} <= set(cli.COMMANDS)
    assert not set(synonyms._COMMANDS) & set(cli.COMMANDS)


@pytest.mark.parametrize("word", ["output_dir", "save_dir", "name", "exp"])
@pytest.mark.parametrize(
    ("program", "flag"),
    [
        ("eval", "eval_dir"),
        ("inference", "output_file"),
        *((name, "out") for name in ("export", "predict", "select", "count", "audit", "make-records")),
    ],
)
def test_a_word_for_the_output_never_names_the_model(
    word: str, program: str, flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([program, f"--{word}=x"]) == 2
    assert f"did you mean --{flag}?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "expected", "wrong"),
    [
        (["predict", "--weights=best.pt"], "--model?", "--checkpoint"),
        (["serve", "--weights=best.pt"], "--model?", "--checkpoint"),
        (["serve", "--save_dir=x"], "unknown flag", "--train_dir"),
        (["train", "--limit=1000"], "unknown flag", "--max_frames"),
        (["train", "--force"], "unknown flag", "--start_new_model"),
        (["import", "x"], "import-checkpoint", "make-records?"),
        (["train", "--num_train_epochs=3"], "--num_epochs?", "train_dir"),
        (["train", "--metric_for_best_model=map"], "--best_metric?", "train_dir"),
        (["add-classes", "--classes=a"], "--data?", "train_dir"),
    ],
)
def test_what_other_programs_mean(
    words: list[str], expected: str, wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(words) == 2
    message = capsys.readouterr().err.partition("(known")[0]
    assert expected in message
    assert f"did you mean {wrong}" not in message


@pytest.mark.parametrize(
    ("script", "command"),
    re.findall(r"^\| `([^`]+\.py)` \| `yt8m ([^`]+)`", (ROOT / "docs/users/differences.md").read_text(), re.MULTILINE),
)
def test_published_scripts_lead_to_the_commands_that_the_page_names(
    script: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([script]) == 2
    assert f"did you mean {command}?" in capsys.readouterr().err
