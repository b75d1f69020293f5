"""The `yt8m` command and the scripts: exit statuses, one line for an error, no TensorFlow before its time."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import cases
import pytest

import yt8m
from yt8m.command_line import cli
from yt8m.errors import RunError, UsageError

ROOT = pathlib.Path(__file__).resolve().parents[2]


def python(*words, **more):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, env=environment, **more)


@pytest.mark.parametrize("words", [[], ["--help"], ["help"]])
def test_alone_it_shows_what_can_be_done(words, capsys):
    assert cli.main(words) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in cli.COMMANDS)
    assert "yt8m train --data=" in shown


def test_help_of_a_command_may_be_asked_for_by_a_word(capsys):
    shown = []
    for words in (["train", "--help"], ["help", "train"]):
        with pytest.raises(SystemExit, match="0"):
            cli.main(words)
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    assert shown[1].startswith("usage: yt8m train ")
    assert cli.main(["help", "trian"]) == 2
    assert "did you mean train?" in capsys.readouterr().err


def test_it_tells_its_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == yt8m.__version__


@pytest.mark.promise("F1")
def test_an_unknown_command_is_refused_with_a_suggestion(capsys):
    assert cli.main(["trian"]) == 2
    assert "unknown command 'trian'; did you mean train?" in capsys.readouterr().err


def raises(error):
    def run(words):
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (UsageError("one\n  two"), 2, "train.py: error: one two\n"),
        (RunError("no checkpoint"), 1, "train.py: error: no checkpoint\n"),
        (KeyboardInterrupt(), 130, "train.py: stopped by Ctrl-C\n"),
    ],
)
def test_errors_become_one_line_and_a_status(error, status, line, capsys, monkeypatch):
    monkeypatch.delenv("YT8M_DEBUG", raising=False)
    assert cli.run_main("train.py", raises(error), []) == status
    assert capsys.readouterr().err == line


def test_the_traceback_is_there_for_those_who_ask(capsys, monkeypatch):
    monkeypatch.setenv("YT8M_DEBUG", "1")
    assert cli.run_main("train.py", raises(UsageError("why")), []) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback")
    assert shown.endswith("train.py: error: why\n")


def test_faults_of_the_program_are_not_hidden():
    with pytest.raises(ZeroDivisionError):
        cli.run_main("train.py", raises(ZeroDivisionError()), [])


def test_the_status_of_the_program_is_passed_on():
    assert cli.run_main("train.py", len, ["a", "b", "c"]) == 3


@pytest.mark.promise("F1")
@pytest.mark.parametrize("script", ["train.py", "eval.py", "inference.py"])
@pytest.mark.parametrize(
    ("words", "part"),
    [
        (["--batch_size=1", "--batch_size=2"], "--batch_size is given twice"),
        (["--segment_labels", "False"], "--nosegment_labels"),
        (["--batch_sizes=2"], "did you mean --batch_size?"),
        (["leftover"], "stray argument 'leftover'"),
        (["--batch_size=0"], "--batch_size must be at least 1"),
    ],
)
def test_slips_end_a_program_before_anything_is_written(script, words, part, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    main = __import__(f"yt8m.{script[:-3]}", fromlist=["main"]).main
    assert main([*words, "--train_dir=run"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(f"{script}: error: ")
    assert part in shown
    assert shown.count("\n") == 1
    assert os.listdir(tmp_path) == []


_LOGGING = """
from absl import logging

def options(words):
    logging.info("the data have %d classes", 3)
    return words

def run(word):
    logging.info("the command got %s", word)
"""


def test_a_command_logs_each_line_once(tmp_path):
    (tmp_path / "logging_command.py").write_text(_LOGGING)
    code = """
from yt8m.command_line import cli
cli.COMMANDS["own"] = cli.Command("logging_command:run", "logs", "logging_command:options")
raise SystemExit(cli.main(["own", "a"]))
"""
    done = python("-c", code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    words = [line.split(" ", 2)[2] for line in done.stderr.splitlines()]
    assert words == ["INFO the data have 3 classes", "INFO the command got a"]


@pytest.mark.parametrize("script", cases.all_of(["train.py"], heavy=["eval.py", "inference.py"]))
def test_the_scripts_show_their_flags(script, tmp_path):
    shown = python(ROOT / script, "--help=all", cwd=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith(f"usage: {script} ")
    for name in ("train_dir", "batch_size", "moe_num_mixtures", "num_classes"):
        assert f"--{name}=" in shown.stdout


@pytest.mark.parametrize("name", ["train", "eval", "inference", "export"])
def test_a_command_goes_by_the_name_it_was_called_by(name, capsys):
    assert cli.main([name, "--nope"]) == 2
    assert capsys.readouterr().err.startswith(f"yt8m {name}: error: unknown flag --nope")
    with pytest.raises(SystemExit):
        cli.main([name, "--help"])
    assert capsys.readouterr().out.startswith(f"usage: yt8m {name} ")


def test_a_refusal_of_a_script_is_its_exit_status(tmp_path):
    refused = python(ROOT / "train.py", "--frame_features", "False", cwd=tmp_path)
    assert refused.returncode == 2
    assert refused.stderr.startswith("train.py: error: --frame_features False")
    assert python("-m", "yt8m", "train", "--nope").returncode == 2
    assert python("-m", "yt8m.eval", "--nope").returncode == 2


_WITHOUT_TENSORFLOW = """
import contextlib, sys
from yt8m.command_line import cli
from yt8m import eval, inference, train
assert cli.main([]) == 0
for main in (train.main, eval.main, inference.main):
    with contextlib.suppress(SystemExit):
        main(["--help"])
    assert main(["--batch_size=x"]) == 2
    assert main(["--train_dir"]) == 2
for name in cli.COMMANDS:
    with contextlib.suppress(SystemExit):
        cli.main([name, "--help"])
assert train.main(["--model=MoeModel", "--moe_num_mixtures=0"]) == 2
assert train.main(["--optimizer=Adam"]) == 2
assert train.main(["--train_data_pattern=/nowhere/*"]) == 2
for name in ("tensorflow", "keras", "google.cloud.storage", "matplotlib", "fastapi"):
    assert name not in sys.modules, name
print("light")
"""


def test_help_and_refusals_do_not_import_tensorflow():
    done = python("-c", _WITHOUT_TENSORFLOW)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "light"), done.stderr


def test_a_model_in_the_current_folder_is_found_and_brings_its_flags(tmp_path):
    (tmp_path / "my_models.py").write_text(
        "from dataclasses import dataclass\n"
        "from yt8m.models import BaseModel\n"
        "from yt8m.options import option\n"
        "@dataclass(frozen=True)\n"
        "class Mine(BaseModel):\n"
        "    hidden: int = option(512, 'units of the hidden layer', minimum=1)\n"
    )
    refused = python(ROOT / "train.py", "--model=my_models:Mine", "--hidden=0", cwd=tmp_path)
    assert refused.returncode == 2
    assert "--hidden must be at least 1; it is 0" in refused.stderr


def test_a_reader_that_leaves_early_is_no_fault():
    command = f"{sys.executable} -m yt8m.train --help | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.startswith("usage: train.py")
    assert done.stderr == ""


@pytest.mark.parametrize("name", ["vocabulary", "completion", "cloud-job"])
def test_a_command_that_needs_a_second_word_says_which(name, capsys):
    assert cli.main([name]) == 2
    assert f"yt8m {name}: error: `yt8m {name}` is not" in capsys.readouterr().err
