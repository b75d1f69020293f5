"""The additions of test_additions.py in use; pytest runs this file in the copy of the project that has them."""

from __future__ import annotations

import contextlib
import io
import json
import pathlib

import numpy as np
import pytest
from small_run import weights

from yt8m import eval as evaluation
from yt8m import extractors, inference, losses, models, train
from yt8m.command_line import cli
from yt8m.datasets.sample_data import SampleConfig, generate


def shown(*words: str) -> str:
    """What train.py prints when it is run with these arguments, which make it print and exit."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), pytest.raises(SystemExit):
        train.main([*words])
    return output.getvalue()


def test_the_added_model_and_loss_are_listed_with_their_flags() -> None:
    assert "AddedModel" in models.built_in_names()
    assert "AddedLoss" in losses.built_in_names()
    told = set(shown("--model=AddedModel", "--helpfull").replace(",", " ").replace("=", " ").split())
    assert {"AddedModel", "AddedLoss", "--added_penalty", "--added_factor"} <= told


@pytest.fixture
def words(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A command line of train.py with sample data in the current folder; the run is in `run`."""
    monkeypatch.chdir(tmp_path)
    generate(SampleConfig("data", "video", 8, 4, 4, num_classes=4, shards=1))
    return [
        *("--train_data_pattern=data/video/train/*", "--feature_names=mean_rgb,mean_audio", "--num_classes=4"),
        *("--model=AddedModel", "--added_penalty=0.5", "--label_loss=AddedLoss", "--reader=added_reader:AddedReader"),
        *("--callbacks=added_callback:AddedCallback", "--batch_size=4", "--train_dir=run"),
    ]


def test_a_run_uses_what_was_added(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert train.main([*words, "--max_steps=2"]) == 0
    assert pathlib.Path("steps.txt").read_text().split() == ["0", "1"]
    assert evaluation.main(["--train_dir=run", "--eval_data_pattern=data/video/validate/*", "--run_once"]) == 0
    figures = json.loads(pathlib.Path("run/eval/report.json").read_text())
    assert figures["hit_at_one"] <= figures["hit_at_two"] <= 1
    said, log = capfd.readouterr()
    assert "Hit@2" in said
    assert "Avg_Hit@2" in log
    assert inference.main(["--train_dir=run", "--input_data_pattern=data/video/test/*"]) == 0
    _, *rows = pathlib.Path("run/predictions.csv").read_text().splitlines()
    assert len(rows) == 4
    assert all(row.startswith("added-") for row in rows)


def test_an_added_option_takes_effect_when_it_is_changed(words: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert train.main([*words, "--max_steps=1", "--added_factor=0"]) == 0
    assert train.main([*words, "--max_steps=2", "--added_factor=0"]) == 0
    assert "added_factor was" not in capfd.readouterr().err
    assert train.main([*words, "--max_steps=3", "--added_factor=1"]) == 0
    assert "added_factor was 0.0 and is 1.0" in capfd.readouterr().err
    first, second, third = (weights(pathlib.Path("run"), step)["tower/added/weights"] for step in (1, 2, 3))
    np.testing.assert_array_equal(first, second)
    assert (second != third).any()


def test_the_added_command_is_listed_and_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    assert "print a word" in capsys.readouterr().out
    assert cli.main(["added", "--word=yes"]) == 0
    assert capsys.readouterr().out == "yes\n"


def test_the_added_optimizer_and_flag_of_the_workload_are_used(words: list[str]) -> None:
    more = ["--optimizer=added_optimizer:AddedOptimizer", "--augment_gain=0", "--log_every_n_steps=1"]
    assert train.main([*words, *more, "--max_steps=1"]) == 0
    assert train.main([*words, *more, "--max_steps=2"]) == 0
    first, second = (weights(pathlib.Path("run"), step)["tower/added/weights"] for step in (1, 2))
    np.testing.assert_array_equal(first, second)
    rows = [json.loads(line) for line in pathlib.Path("run/metrics.jsonl").read_text().splitlines()]
    # Of features that are all zero, every prediction is a half, and the error of a class is a quarter.
    assert rows[-1]["loss"] == pytest.approx(4 / 4)


def test_the_added_extractor_is_opened_by_its_name() -> None:
    extractor = extractors.create("added_extractor:AddedExtractor", {})
    with extractor.open({}) as compute:
        assert compute(np.full((2, 3, 3, 3), 7, np.uint8)).tolist() == [[7.0], [7.0]]
