"""What `yt8m train --json` prints: the figures of the weights that the run means, by the names of `eval --json`."""

from __future__ import annotations

import dataclasses
import json
import pathlib

import pytest
import small_run
from golden_data import golden

from yt8m.config import run_dir
from yt8m.runner import Outcome, Status
from yt8m.training import final_figures


@pytest.mark.heavy
def test_the_figures_are_those_of_the_weights_that_the_run_means(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    validation = (f"--eval_data_pattern={golden('checkpoint_logistic/test.tfrecord')}", "--eval_every_n_steps=4")
    assert small_run.run(folder, *validation, "--save_checkpoint_steps=4", "--base_learning_rate=30", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert (printed["step"], printed["meant"]["step"], printed["test"]) == (12, 12, None)
    evaluated = small_run.evaluate(folder)
    for key in ("gap", "map", "hit_at_one", "perr", "loss"):
        assert printed["meant"]["validation"][key] == pytest.approx(evaluated[key], abs=1e-6)
    saved = run_dir.read(str(folder))
    assert saved is not None
    config = dataclasses.replace(saved.config, checkpoint="best")
    note = {"step": 8, "metric": "GAP", "figures": {"GAP": 0.75, "mAP": 0.5, "loss": 2.0}}
    (folder / "best/best.json").write_text(json.dumps(note))
    outcome = Outcome(Status.FINISHED, 12, "")
    for meant, expected in ((8, {"gap": 0.75, "map": 0.5, "loss": 2.0}), (12, printed["meant"]["validation"])):
        found = final_figures.of_training(config, outcome, meant, None)
        assert found["meant"] == {"step": meant, "validation": expected}
        assert (found["step"], found["validation"]["step"]) == (12, 12)
