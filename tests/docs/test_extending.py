"""The page on classes of one's own: its model, loss, callback and reader train as it says."""

from __future__ import annotations

import contextlib
import importlib
import json
import pathlib
import re
import sys

import numpy as np
import pytest
from docs.command_blocks import ROOT

from docs import command_blocks
from yt8m import eval as evaluation
from yt8m import inference, train
from yt8m.command_line import cli
from yt8m.datasets.sample_data import SampleConfig, generate
from yt8m.lazy import tf
from yt8m.registry import TRUST_HELP

FILES = command_blocks.files_of(ROOT / "docs/users/extending.md")


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The files of the page, in the folder that this process is in."""
    command_blocks.put(FILES, tmp_path, monkeypatch)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.heavy
def test_model_loss_and_callback_train_together(folder: pathlib.Path) -> None:
    assert list(FILES) == [
        *("my_models.py", "my_losses.py", "my_optimizers.py", "my_callbacks.py", "my_metrics.py", "my_reader.py")
    ]
    generate(SampleConfig("data", "frame", 12, 6, 0, num_classes=4, shards=1, min_frames=10, max_frames=12))
    words = ["--frame_features", "--num_classes=4", "--batch_size=6", "--max_steps=30", "--num_epochs=50"]
    words += ["--model=my_models:BestFramesModel", "--units=8", "--label_loss=my_losses:BrierLoss", "--scale=2"]
    words += ["--callbacks=my_callbacks:StopWhenSure", "--log_every_n_steps=1", "--train_dir=run"]
    assert train.main([*words, "--train_data_pattern=data/frame/train/*", "--feature_names=rgb,audio"]) == 0
    gaps = [float(line.split(",")[1]) for line in (folder / "gaps.csv").read_text().splitlines()]
    assert len(gaps) < 30
    # A line is given out behind its step, so one more step follows.
    assert max(gaps[:-2], default=0) <= 0.5 < gaps[-2]
    evaluated = ["--train_dir=run", "--run_once", "--eval_data_pattern=data/frame/validate/*"]
    assert evaluation.main([*evaluated, "--metrics=my_metrics:HitAtFive"]) == 0
    assert json.loads((folder / "run/eval/report.json").read_text())["hit_at_five"] == 1  # there are four classes


@pytest.mark.heavy
def test_the_optimizer_takes_steps_of_the_learning_rate(folder: pathlib.Path) -> None:
    generate(SampleConfig("data", "video", 12, 0, 0, num_classes=4, shards=1))
    words = ["--optimizer=my_optimizers:SignOptimizer", "--base_learning_rate=0.25", "--num_classes=4", "--max_steps=1"]
    words += ["--train_data_pattern=data/video/train/*", "--batch_size=6", "--clip_gradient_norm=0"]
    words += ["--train_dir=run", "--save_checkpoint_steps=1", "--model=LogisticModel", "--callbacks=-train_summary"]
    assert train.main(words) == 0
    reader = tf.train.load_checkpoint(str(folder / "run"))
    (bias,) = (name for name in reader.get_variable_to_shape_map() if name.endswith("biases"))
    assert set(np.abs(reader.get_tensor(bias))) == {0.25}
    del sys.modules["my_optimizers"]


@pytest.mark.heavy
def test_the_reader_reads_and_its_run_learns_and_is_evaluated(folder: pathlib.Path) -> None:
    module = importlib.import_module("my_reader")
    assert module.__file__ == str(folder / "my_reader.py")
    module.write("half.tfrecord")
    words = ["--reader=my_reader:HalfPrecisionReader", "--num_classes=2", "--feature_names=half", "--feature_sizes=8"]
    words += ["--batch_size=16", "--num_epochs=40", "--train_data_pattern=half.tfrecord", "--train_dir=run"]
    assert train.main(words) == 0
    last = json.loads((folder / "run/metrics.jsonl").read_text().splitlines()[-1])
    assert last["step"] == 64 * 40 // 16
    assert last["GAP"] > 0.9
    assert evaluation.main(["--train_dir=run", "--run_once", "--eval_data_pattern=half.tfrecord"]) == 0
    assert json.loads((folder / "run/eval/report.json").read_text())["gap"] > 0.9
    assert inference.main(["--train_dir=run", "--input_data_pattern=half.tfrecord"]) == 0
    lines = (folder / "run/predictions.csv").read_text().splitlines()
    assert len(lines) == 1 + 64
    assert lines[1].startswith("v0,")
    del sys.modules["my_reader"]


def test_the_commands_that_run_the_model_of_a_run_are_those_with_the_flag_that_allows_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Apart from those that only take a `--config`, of which the page says so."""
    section = (ROOT / "docs/users/extending.md").read_text().partition("## Runs from elsewhere")[2]
    runs_a_model = section.partition("These are ")[2].partition(". They refuse")[0]
    takes_a_config = section.partition("\n- ")[2].partition(" import only")[0]
    listed = re.findall(r"`([\w-]+)`", runs_a_model + takes_a_config)
    allowing = set()
    for name in cli.COMMANDS:
        with contextlib.suppress(SystemExit):
            cli.main([name, *["infer"] * (name == "bulk"), "--help=all"])
        if TRUST_HELP[:40] in capsys.readouterr().out:
            allowing.add(name)
    assert sorted(allowing) == sorted(listed)
